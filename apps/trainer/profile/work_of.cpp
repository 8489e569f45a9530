// Counts products node by node.
#include "nixie/apps/trainer/profile/work_of.h"

#include <set>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

double count(const Shape& shape) { return static_cast<double>(shape.size()); }

// Every role multiplies each output position of the convolution with each filter element that feeds it.
double conv_flop(const Shape& y, const Shape& w) { return 2 * count(y) * count(w) / static_cast<double>(w[0]); }

double bytes_of(const VariableState& variable) {
  return count(variable.shape) * static_cast<double>(size_of(variable.dtype));
}

}  // namespace

double flop(const Tensor& node) {
  if (std::holds_alternative<Matmul>(node.node().op))
    return 2 * count(node.shape()) * static_cast<double>(node.inputs()[0].shape()[-1]);
  const auto* conv = std::get_if<Conv>(&node.node().op);
  if (!conv) return 0;
  const Tensor& y = conv->role == ConvRole::output ? node : node.inputs()[0];
  const Tensor& w = conv->role == ConvRole::filter_grad ? node : node.inputs()[1];
  return conv_flop(y.shape(), w.shape());
}

Work work_of(const Graph& graph) {
  Work work;
  std::set<const VariableState*> read;
  for (const Tensor& node : topological(graph)) {
    work.flop += flop(node);
    const auto* input = std::get_if<Input>(&node.node().op);
    if (input && input->variable && read.insert(input->variable.get()).second) work.bytes += bytes_of(*input->variable);
  }
  for (const Trace::Set& set : graph.sets) work.bytes += bytes_of(*set.variable);
  return work;
}

Work work_of_group(const Plan& plan) {
  Work work;
  for (const Kernel& kernel : plan.kernels) {
    if (!kernel.head) continue;
    const std::vector<Operand>& operands = kernel.head->operands;
    if (std::holds_alternative<Matmul>(kernel.head->op))
      work.flop += 2 * count(kernel.domain) * static_cast<double>(operands[0].shape[-1]);
    if (const auto* conv = std::get_if<Conv>(&kernel.head->op))
      work.flop += conv_flop(conv->role == ConvRole::output ? kernel.domain : operands[0].shape,
                             conv->role == ConvRole::filter_grad ? kernel.domain : operands[1].shape);
  }
  const Group& group = plan.groups.front();
  for (const auto* slots : {&group.reads, &group.writes})
    for (const int slot : std::set<int>(slots->begin(), slots->end()))
      work.bytes += static_cast<double>(plan.slots[at(slot)].size_bytes());
  return work;
}

}  // namespace nixie
