// Layout: channels-last for images and Variables on targets that ask for it, row-major for everything else.
#include "nixie/core/passes/layout.h"

#include <algorithm>

#include "nixie/core/passes/simplify.h"

namespace nixie {

bool has_variable_layout(const Tensor& output) {
  const Node* node = &output.node();
  while (std::holds_alternative<Map>(node->op) && node->inputs.size() == 1) node = node->inputs[0].id();
  const auto* conv = std::get_if<Conv>(&node->op);
  return conv && conv->role == ConvRole::filter_grad;
}

Layout choose_layout(const Graph& graph, const Target& target) {
  Layout layout(target);
  if (!target.channels_last) return layout;
  for (const Tensor& x : topological(graph)) {
    if (x.rank() < 3) continue;
    const bool last = std::visit(
        overloaded{
            []<OneOf<Conv, Pool> T>(const T&) { return true; },
            [](const Input& input) {
              return input.variable || input.has_variable_layout || (input.storage && input.storage->of_variable());
            },
            [&]<OneOf<Map, Concat> T>(const T&) {  // made of images: in their order
              return std::any_of(x.inputs().begin(), x.inputs().end(), [&](const Tensor& input) {
                return input.rank() == x.rank() && !layout.row_major(input);
              });
            },
            []<OneOf<Constant, Coordinate, Reduce, Expand, Reshape, Permute, Slice, Pad, Gather, Scatter, Random,
                     Matmul>
                   T>(const T&) { return false; },
        },
        x.node().op);
    if (last) layout.set_channels_last(x);
  }
  return layout;
}

}  // namespace nixie
