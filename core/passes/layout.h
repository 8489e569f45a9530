// Layout: the only place that decides the physical order of axes. Kernels see strides.
#pragma once

#include <unordered_map>

#include "nixie/core/graph/backend.h"
#include "nixie/core/state/graph.h"

namespace nixie {

/// The physical strides of every value that gets a slot: row-major, or with the axes of channels last, in their order.
/// Channels may be several axes, as where they are split into groups, and views bring them to any place: they are axis
/// 1 of images (Shape::channels_last).
class Layout {
 public:
  explicit Layout(const Target& target = {}) : target_(target) {}

  Strides strides(const Tensor& x) const;
  /// The channel axes of a value, ascending; none of a row-major one.
  Axes channel_axes(const Tensor& x) const;
  void set_channel_axes(const Tensor& x, Axes axes) { channel_axes_[x.id()] = std::move(axes); }
  /// The layout of every Variable of this shape, in all Steps and in its storage.
  Strides variable(const Shape& shape) const {
    return target_.channels_last ? shape.channels_last() : shape.row_major();
  }

 private:
  Target target_;
  std::unordered_map<const Node*, Axes> channel_axes_;
};

/// Whether an output is made of a filter gradient, as its first operand: it has the layout of a Variable of its shape.
/// Forms of a gradient (core/rewrites) are.
bool has_variable_layout(const Tensor& output);

/// Picks the layouts that a target prefers. Inputs stay row-major, and so do outputs without a Variable's layout.
Layout choose_layout(const Graph& graph, const Target& target);

}  // namespace nixie
