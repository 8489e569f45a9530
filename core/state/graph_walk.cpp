// A graph's nodes in an order of their own, without recursion: chains may be a million nodes long.
#include "nixie/core/state/graph_walk.h"

#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace nixie {

std::vector<Tensor> topological(const Graph& graph) {
  std::vector<Tensor> order;
  std::unordered_set<const Node*> visited;
  std::vector<std::pair<const Tensor*, std::size_t>> stack;
  auto visit = [&](const Tensor& root) {
    if (visited.insert(root.id()).second) stack.emplace_back(&root, 0);
    while (!stack.empty()) {
      auto& [tensor, next] = stack.back();
      if (next < tensor->inputs().size()) {
        const Tensor& input = tensor->inputs()[next++];
        if (visited.insert(input.id()).second) stack.emplace_back(&input, 0);
      } else {
        order.push_back(*tensor);
        stack.pop_back();
      }
    }
  };
  for (const Tensor& output : graph.outputs) visit(output);
  for (const Trace::Set& set : graph.sets) visit(set.value);
  return order;
}

Tensor with_inputs(const Tensor& x, std::vector<Tensor> inputs) {
  return inputs.empty() ? x : Tensor::make(x.node().op, std::move(inputs), x.shape(), x.dtype());
}

Graph with_roots(const Graph& graph, const std::function<Tensor(const Tensor&)>& by) {
  Graph result;
  for (const Tensor& output : graph.outputs) result.outputs.push_back(by(output));
  for (const Trace::Set& set : graph.sets) result.sets.push_back({set.variable, by(set.value)});
  return result;
}

Graph rewritten(const Graph& graph, const WriteNode& by) { return rewritten(graph, by, topological(graph)); }
Graph rewritten(const Graph& graph, const WriteNode& by, const std::vector<Tensor>& order) {
  std::unordered_map<const Node*, Tensor> done;
  for (const Tensor& x : order) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : x.inputs()) inputs.push_back(done.at(input.id()));
    done.emplace(x.id(), by(x, std::move(inputs)));
  }
  return with_roots(graph, [&](const Tensor& root) { return done.at(root.id()); });
}

bool is_plain_number(double value) { return std::abs(value) <= 16 && value == std::floor(value); }

std::vector<double> scalars_of(const Graph& graph) {
  std::vector<double> scalars;
  for (const Tensor& x : topological(graph))
    if (const auto* constant = op_as<Constant>(x); constant && !is_plain_number(constant->value))
      scalars.push_back(constant->value);
  return scalars;
}

std::vector<Tensor> leaves_of(const Graph& graph) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : topological(graph))
    if (is_a<Input>(x)) leaves.push_back(x);
  return leaves;
}

}  // namespace nixie
