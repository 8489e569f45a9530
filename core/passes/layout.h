// Layout: where the physical order of axes is decided, and nowhere else. Kernels see strides.
#pragma once

#include <unordered_set>

#include "nixie/core/graph/backend.h"
#include "nixie/core/state/graph.h"

namespace nixie {

/// The physical strides of every value that gets a slot: row-major, or channels-last (Shape::channels_last).
class Layout {
 public:
  explicit Layout(const Target& target = {}) : target_(target) {}

  Strides strides(const Tensor& x) const { return row_major(x) ? x.shape().row_major() : x.shape().channels_last(); }
  bool row_major(const Tensor& x) const { return channels_last_.count(x.id()) == 0; }
  void set_channels_last(const Tensor& x) { channels_last_.insert(x.id()); }
  /// Of every Variable of this shape, in whichever Step: its storage keeps to it too.
  Strides variable(const Shape& shape) const {
    return target_.channels_last ? shape.channels_last() : shape.row_major();
  }

 private:
  Target target_;
  std::unordered_set<const Node*> channels_last_;
};

/// Whether an output is the gradient of a filter: it lies as a Variable of its shape does.
bool has_variable_layout(const Tensor& output);

/// Picks the layouts a target wants. Inputs stay row-major, and outputs but for those that lie as Variables.
Layout choose_layout(const Graph& graph, const Target& target);

}  // namespace nixie
