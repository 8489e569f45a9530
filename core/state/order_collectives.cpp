// A collective's inputs were made before it, so no collective needs one of a larger number.
#include "nixie/core/state/order_collectives.h"

#include <map>

#include "nixie/core/state/graph_walk.h"

namespace nixie {

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

}  // namespace nixie
