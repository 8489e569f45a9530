// Layout: channels-last for images and Variables on targets that ask for it, row-major for everything else.
#include "nixie/core/passes/layout.h"

#include "nixie/core/passes/simplify.h"

namespace nixie {

bool lies_as_variable(const Tensor& output) {
  if (std::holds_alternative<Map>(output.node().op) && output.inputs().size() == 1)
    return lies_as_variable(output.inputs()[0]);
  const auto* conv = std::get_if<Conv>(&output.node().op);
  return conv && conv->role == ConvRole::filter_grad;
}

Layout choose_layout(const Graph& graph, const Target& target) {
  Layout layout(target);
  if (!target.channels_last) return layout;
  for (const Tensor& x : topological(graph)) {
    if (x.rank() < 3) continue;
    const Op& op = x.node().op;
    bool last = std::holds_alternative<Conv>(op) || std::holds_alternative<Pool>(op);
    if (const auto* input = std::get_if<Input>(&op))
      last = input->variable || (input->storage && input->storage->of_variable());
    if (std::holds_alternative<Map>(op) || std::holds_alternative<Concat>(op))  // made of images: lies as they do
      for (const Tensor& input : x.inputs()) last |= input.rank() == x.rank() && !layout.row_major(input);
    if (last) layout.set_channels_last(x);
  }
  return layout;
}

}  // namespace nixie
