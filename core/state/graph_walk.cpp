// A graph's nodes in an order of their own, without recursion: chains may be a million nodes long.
#include "nixie/core/state/graph_walk.h"

#include <cmath>
#include <map>
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

// A collective's inputs were made before it, so no collective needs one of a larger number.
Graph order_collectives(const Graph& graph) {
  std::map<std::int64_t, Tensor> collectives;
  for (const Tensor& x : topological(graph))
    if (const auto* op = op_as<Collective>(x)) collectives.emplace(op->number, x);
  if (collectives.size() < 2) return graph;
  Graph in_order{.outputs = {}, .sets = graph.sets};
  for (const auto& [number, collective] : collectives) in_order.outputs.push_back(collective);
  in_order.outputs.insert(in_order.outputs.end(), graph.outputs.begin(), graph.outputs.end());
  return rewritten(graph, with_inputs, topological(in_order));
}

bool is_scalar(const Tensor& x) {
  const auto* constant = op_as<Constant>(x);
  return constant && !(std::abs(constant->value) <= 16 && constant->value == std::floor(constant->value));
}

std::vector<double> scalars_of(const Graph& graph) {
  std::vector<double> scalars;
  for (const Tensor& x : topological(graph))
    if (is_scalar(x)) scalars.push_back(op_as<Constant>(x)->value);
  return scalars;
}

std::vector<Tensor> leaves_of(const Graph& graph) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : topological(graph))
    if (is_a<Input>(x)) leaves.push_back(x);
  return leaves;
}

}  // namespace nixie
