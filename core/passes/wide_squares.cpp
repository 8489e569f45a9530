// Wide squares: one walk from leaves to roots for what is made of squares, one back for what is summed.
#include "nixie/core/passes/wide_squares.h"

#include <algorithm>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

using Nodes = std::unordered_set<const Node*>;

bool is_number(const Tensor& x) {
  if (is_a<Expand>(x)) return is_number(x.inputs()[0]);
  return is_a<Constant>(x);
}

// The last instruction of a formula.
Primitive last_of(const Map& map) { return map.op->formula.body.back().primitive; }

// x * x, in a formula of one parameter or as a product of one value by itself; x^n with n from 2 on.
bool is_square(const Tensor& x) {
  const auto* map = op_as<Map>(x);
  if (!map) return false;
  const auto& body = map->op->formula.body;
  const std::vector<Tensor>& inputs = x.inputs();
  const bool is_one_step = static_cast<int>(body.size()) == map->op->formula.arity + 1;
  if (!is_one_step) return false;
  if (last_of(*map) == Primitive::mul) return inputs.size() == 1 || inputs[0].id() == inputs[1].id();
  const auto* power = last_of(*map) == Primitive::pow ? op_as<Constant>(inputs[1]) : nullptr;
  return power && power->value >= 2;
}

bool sums(const Tensor& x) {
  const auto* reduce = op_as<Reduce>(x);
  return reduce && (reduce->kind == ReduceKind::sum || reduce->kind == ReduceKind::mean);
}

// The inputs of a node that keeps the range of its values; else nothing.
std::vector<Tensor> values_of(const Tensor& x) {
  const std::vector<Tensor>& inputs = x.inputs();
  const auto* pool = op_as<Pool>(x);
  if (is_view(x) || is_a<Concat>(x) || sums(x)) return inputs;
  if (pool && pool->kind == PoolKind::average && pool->role == PoolRole::output) return inputs;
  const auto* map = op_as<Map>(x);
  if (!map || is_square(x) || static_cast<int>(map->op->formula.body.size()) > map->op->formula.arity + 1) return {};
  switch (last_of(*map)) {
    case Primitive::parameter:  // a change of type, but for a cast to halves, which rounds
      return map->op->traits.result == ResultType::cast && x.dtype() != Dtype::f32 ? std::vector<Tensor>{} : inputs;
    case Primitive::neg:
    case Primitive::add:
      return inputs;
    case Primitive::select:
      return {inputs[1], inputs[2]};
    case Primitive::mul:
      return is_number(inputs[0]) || is_number(inputs[1]) ? inputs : std::vector<Tensor>{};
    case Primitive::div:
      return is_number(inputs[1]) ? inputs : std::vector<Tensor>{};
    default:
      return {};
  }
}

// Whether the step makes values of `of` and numbers alone; a concatenation, of any of them.
bool is_made_of(const Tensor& x, const Nodes& of) {
  const std::vector<Tensor> values = values_of(x);
  const auto is_one = [&](const Tensor& value) { return of.count(value.id()) != 0; };
  if (std::ranges::none_of(values, is_one)) return false;
  return is_a<Concat>(x) || std::ranges::all_of(values, [&](const Tensor& y) { return is_one(y) || is_number(y); });
}

bool is_sum(const Tensor& x, const Nodes& terms) {
  if (sums(x)) return true;
  if (is_a<Pool>(x)) return terms.count(x.id()) != 0;
  const auto* map = op_as<Map>(x);
  return map && terms.count(x.id()) != 0 && last_of(*map) == Primitive::add &&
         std::ranges::none_of(x.inputs(), is_number);
}

}  // namespace

std::unordered_set<const Node*> wide_squares(const Graph& graph) {
  const std::vector<Tensor> order = topological(graph);
  Nodes terms, summed, wide;
  for (const Tensor& x : order)
    if (is_square(x) || is_made_of(x, terms)) terms.insert(x.id());
  if (terms.empty()) return wide;
  for (auto x = order.rbegin(); x != order.rend(); ++x)
    if (is_sum(*x, terms) || (summed.count(x->id()) && is_made_of(*x, terms)))
      for (const Tensor& input : x->inputs()) summed.insert(input.id());
  for (const Tensor& x : order)
    if ((is_square(x) && summed.count(x.id())) || (!is_square(x) && is_made_of(x, wide))) wide.insert(x.id());
  return wide;
}

}  // namespace nixie
