// Layout: where the physical order of axes is decided, and nowhere else. Kernels see strides.
#pragma once

#include <unordered_map>

#include "core/backend.h"
#include "core/step.h"

namespace nixie {

/// The physical strides of every value that gets a slot. Values that are not named are row-major.
class Layout {
 public:
  Strides strides(const Tensor& x) const;
  bool row_major(const Tensor& x) const { return orders_.count(x.id()) == 0; }
  /// Stores the axes of x in this order, outermost first.
  void set(const Tensor& x, Axes order) { orders_[x.id()] = std::move(order); }

 private:
  std::unordered_map<const Node*, Axes> orders_;
};

/// Picks the layouts a target wants. Inputs, Variables and outputs stay row-major.
Layout choose_layout(const Graph& graph, const Target& target);

}  // namespace nixie
