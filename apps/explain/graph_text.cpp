// The name of each kind of node, and its options.
#include "nixie/apps/explain/graph_text.h"

#include <fmt/format.h>

#include <unordered_map>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

std::string list(const std::vector<int>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }
std::string list(const std::vector<std::int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

const char* role_text(ConvRole role) {
  return role == ConvRole::output ? "output" : role == ConvRole::input_grad ? "input_grad" : "filter_grad";
}
const char* role_text(PoolRole role) {
  switch (role) {
    case PoolRole::output:
      return "output";
    case PoolRole::index:
      return "index";
    case PoolRole::input_grad:
      return "input_grad";
    case PoolRole::gather:
      break;
  }
  return "gather";
}

std::string op_text(const Op& op) {
  return std::visit(
      overloaded{
          [](const Constant& o) { return fmt::format("{}", o.value); },
          [](const Input& o) { return (o.variable ? "variable " : "input ") + (o.name.empty() ? "array" : o.name); },
          [](const Map& o) { return o.op->name; },
          [](const Coordinate& o) { return fmt::format("coordinate of axis {}", o.axis); },
          [](const Reduce& o) { return fmt::format("{} over {}", to_string(o.kind), list(o.axes)); },
          [](const Expand&) { return std::string("expand"); },
          [](const Reshape&) { return std::string("reshape"); },
          [](const Permute& o) { return "permute " + list(o.order); },
          [](const Slice& o) { return "slice from " + list(o.start) + " by " + list(o.step); },
          [](const Pad& o) { return "pad " + list(o.low) + " " + list(o.high); },
          [](const Concat& o) { return fmt::format("concat along {}", o.axis); },
          [](const Gather& o) { return fmt::format("gather along {}", o.axis); },
          [](const Scatter& o) { return fmt::format("scatter {} along {}", to_string(o.kind), o.axis); },
          [](const ArgSort& o) {
            return fmt::format("argsort along {}{}", o.axis, o.descending ? ", descending" : "");
          },
          [](const Scan& o) {
            return fmt::format("scan {} along {}{}{}", to_string(o.kind), o.axis, o.reverse ? ", reversed" : "",
                               o.exclusive ? ", exclusive" : "");
          },
          [](const Collective& o) { return std::string(to_string(o.kind)); },
          [](const Random& o) { return std::string(o.kind == RandomKind::uniform ? "uniform" : "normal"); },
          [](const Matmul&) { return std::string("matmul"); },
          [](const RoundedProduct& o) {
            return std::visit([](const auto& product) { return op_text(product); }, o.product) +
                   fmt::format(" sums {} every {}", o.sums.merge->name, o.sums.every);
          },
          [](const Conv& o) {
            return fmt::format("conv {} stride {} pad {}", role_text(o.role), list(o.stride), list(o.pad));
          },
          [](const Pool& o) {
            return fmt::format("{} pool {} window {} stride {}{}", o.kind == PoolKind::max ? "max" : "average",
                               role_text(o.role), list(o.window), list(o.stride),
                               o.dilation.empty() ? "" : fmt::format(" dilation {}", list(o.dilation)));
          }},
      op);
}

}  // namespace

std::string graph_text(const Graph& graph) {
  std::unordered_map<const Node*, std::size_t> numbers;
  std::string text;
  for (const Tensor& node : topological(graph)) {
    const std::size_t number = numbers.size();
    numbers[node.id()] = number;
    std::string inputs;
    for (const Tensor& input : node.inputs())
      inputs += fmt::format("{}%{}", inputs.empty() ? "" : ", ", numbers.at(input.id()));
    text += fmt::format("%{} = {}{}  {} {}\n", number, op_text(node.node().op),
                        inputs.empty() ? "" : " (" + inputs + ")", node.dtype(), node.shape());
  }
  for (const Trace::Set& set : graph.sets)
    text += fmt::format("set {} to %{}\n", set.variable->name, numbers.at(set.value.id()));
  return text;
}

}  // namespace nixie
