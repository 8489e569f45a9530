// Counts products node by node.
#include "nixie/apps/trainer/profile/work_of.h"

#include <set>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

double count(const Shape& shape) { return static_cast<double>(shape.size()); }

double bytes_of(const VariableState& variable) {
  return count(variable.shape) * static_cast<double>(size_of(variable.dtype));
}

}  // namespace

double flop(const Tensor& node) {
  if (product_in<Matmul>(node.node().op))
    return 2 * count(node.shape()) * static_cast<double>(node.inputs()[0].shape()[-1]);
  const auto* conv = product_in<Conv>(node.node().op);
  return conv ? conv_flop(conv->role, node.shape(), node.inputs()[0].shape(), node.inputs()[1].shape()) : 0;
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

std::int64_t bytes_of(const Parameters& parameters) {
  std::int64_t bytes = 0;
  for (const Variable& variable : parameters.all()) bytes += variable.shape().size() * size_of(variable.dtype());
  return bytes;
}

Work work_of_group(const Plan& plan) {
  Work work;
  for (const Kernel& kernel : plan.kernels) work.flop += flop(kernel);
  const Group& group = plan.groups.front();
  for (const auto* slots : {&group.reads, &group.writes})
    for (const int slot : std::set<int>(slots->begin(), slots->end()))
      work.bytes += static_cast<double>(plan.slots[at(slot)].size_bytes());
  return work;
}

}  // namespace nixie
