// Layout: the only place that decides the physical order of axes. Kernels see strides.
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
  /// The layout of every Variable of this shape, in all Steps and in its storage.
  Strides variable(const Shape& shape) const {
    return target_.channels_last ? shape.channels_last() : shape.row_major();
  }

 private:
  Target target_;
  std::unordered_set<const Node*> channels_last_;
};

/// Whether an output is a filter gradient, which has the layout of a Variable of its shape.
bool has_variable_layout(const Tensor& output);

/// Picks the layouts that a target prefers. Inputs stay row-major, and so do outputs without a Variable's layout.
Layout choose_layout(const Graph& graph, const Target& target);

}  // namespace nixie
