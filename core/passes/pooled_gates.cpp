// Moves gates from behind a max pooling's gradient to before it.
#include "nixie/core/passes/pooled_gates.h"

#include <utility>

namespace nixie {
namespace {

const Pool* max_pool_of(const Tensor& x, PoolRole role) {
  const auto* pool = std::get_if<Pool>(&x.node().op);
  return pool && pool->kind == PoolKind::max && pool->role == role ? pool : nullptr;
}

// The gate for y = max_pool(x) in place of x; none if it is made of anything but x and numbers.
std::optional<Tensor> gate_of_pooled(const Tensor& gate, const Tensor& x, const Tensor& y, const MakeNode& make) {
  if (!std::holds_alternative<Map>(gate.node().op) || gate.dtype() != Dtype::boolean) return {};
  std::vector<Tensor> inputs;
  for (const Tensor& input : gate.inputs()) {
    const auto* number = std::get_if<Constant>(&input.node().op);
    if (input.id() == x.id())
      inputs.push_back(y);
    else if (number)
      inputs.push_back(make(*number, {}, input.shape() == x.shape() ? y.shape() : input.shape(), input.dtype()));
    else
      return {};
  }
  return make(gate.node().op, std::move(inputs), y.shape(), Dtype::boolean);
}

}  // namespace

std::optional<Tensor> gated_before_pooling(const Map& mul, const std::vector<Tensor>& factors, Dtype dtype,
                                           const MakeNode& make) {
  for (const std::size_t i : {0, 1}) {
    const Tensor& dx = factors[i];
    const Pool* pool = max_pool_of(dx, PoolRole::input_grad);
    if (!pool || dx.dtype() != dtype || dx.inputs()[0].dtype() != dtype) continue;
    const Tensor &dy = dx.inputs()[0], &index = dx.inputs()[1];
    if (!max_pool_of(index, PoolRole::index)) continue;
    const Tensor& x = index.inputs()[0];
    Pool forward = *pool;
    forward.role = PoolRole::output;
    const auto gate = gate_of_pooled(factors[1 - i], x, make(forward, {x}, dy.shape(), x.dtype()), make);
    if (!gate) continue;
    std::vector<Tensor> gated{dy, *gate};
    if (i == 1) std::swap(gated[0], gated[1]);
    return make(*pool, {make(mul, std::move(gated), dy.shape(), dtype), index}, dx.shape(), dtype);
  }
  return {};
}

}  // namespace nixie
