// Layout: channels-last for images on targets that ask for it, row-major for everything else.
#include "core/layout.h"

#include "core/simplify.h"

namespace nixie {

Strides Layout::strides(const Tensor& x) const {
  const auto found = orders_.find(x.id());
  if (found == orders_.end()) return x.shape().row_major();
  Strides strides(static_cast<std::size_t>(x.rank()));
  std::int64_t stride = 1;
  for (auto axis = found->second.rbegin(); axis != found->second.rend(); ++axis) {
    strides[static_cast<std::size_t>(*axis)] = stride;
    stride *= x.shape()[*axis];
  }
  return strides;
}

Layout choose_layout(const Graph& graph, const Target& target) {
  Layout layout;
  if (!target.channels_last) return layout;
  for (const Tensor& x : topological(graph)) {
    const bool image = std::holds_alternative<Conv>(x.node().op) || std::holds_alternative<Pool>(x.node().op);
    bool follows = false;  // elementwise results keep the layout of what they are made of
    if (std::holds_alternative<Map>(x.node().op))
      for (const Tensor& input : x.inputs()) follows |= input.shape() == x.shape() && !layout.row_major(input);
    if (!(image || follows) || x.rank() < 3) continue;
    Axes order{0};
    for (int axis = 2; axis < x.rank(); ++axis) order.push_back(axis);
    order.push_back(1);
    layout.set(x, order);
  }
  return layout;
}

}  // namespace nixie
