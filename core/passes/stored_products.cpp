// Looks for the stored numbers of both operands, and takes their scales behind the product.
#include "nixie/core/passes/stored_products.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/formats.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

// Views that only choose and order elements. What a Pad adds would not be scaled.
bool is_choice(const Op& op) { return is_view(op) && !std::holds_alternative<Pad>(op); }

// Whether x only names another storage type for its input.
bool is_retyped(const Tensor& x) {
  const auto* map = std::get_if<Map>(&x.node().op);
  return map && map->op->traits.result == ResultType::retyped && is_floating(x.inputs()[0].dtype());
}

// The operand as views of stored numbers, and their scale; none of another operand.
std::optional<ScaledNumbers> stored(const Tensor& operand) {
  std::vector<Tensor> views;  // from the operand down
  Tensor at = operand;
  for (; is_choice(at.node().op) || (is_retyped(at) && !is_f8(at.dtype())); at = at.inputs()[0])
    if (is_choice(at.node().op)) views.push_back(at);
  std::optional<ScaledNumbers> found = scaled_numbers(at);
  if (!found && is_f8(at.dtype())) found = ScaledNumbers{at, {}};
  if (!found) return {};
  for (auto view = views.rbegin(); view != views.rend(); ++view)
    found->numbers = Tensor::make(view->node().op, {found->numbers}, view->shape(), found->numbers.dtype());
  return found;
}

// The product of stored numbers; none where an operand has none, or is in a batch: kernels take two matrices.
std::optional<Tensor> of_stored(const Tensor& x) {
  const auto* matmul = std::get_if<Matmul>(&x.node().op);
  if (!matmul || x.rank() != 2 || x.dtype() == Dtype::f64 || x.inputs()[0].dtype() != x.dtype()) return {};
  const std::optional<ScaledNumbers> a = stored(x.inputs()[0]), b = stored(x.inputs()[1]);
  if (!a || !b) return {};
  Tensor y = Tensor::make(*matmul, {a->numbers, b->numbers}, x.shape(), Dtype::f32);
  const Tensor &left = a->scale, &right = b->scale;
  if (left.has_value() || right.has_value())
    y = y * (left.has_value() && right.has_value() ? left * right : left.has_value() ? left : right);
  return retype(y, x.dtype());
}

}  // namespace

Graph multiply_stored_numbers(const Graph& graph) {
  std::unordered_map<const Node*, Tensor> done;
  bool any = false;
  for (const Tensor& x : topological(graph)) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : x.inputs()) inputs.push_back(done.at(input.id()));
    const Tensor same = inputs.empty() ? x : Tensor::make(x.node().op, std::move(inputs), x.shape(), x.dtype());
    const std::optional<Tensor> product = of_stored(same);
    any |= product.has_value();
    done.emplace(x.id(), product.value_or(same));
  }
  if (!any) return graph;
  Graph result;
  for (const Tensor& output : graph.outputs) result.outputs.push_back(done.at(output.id()));
  for (const Trace::Set& set : graph.sets) result.sets.push_back({set.variable, done.at(set.value.id())});
  return result;
}

}  // namespace nixie
