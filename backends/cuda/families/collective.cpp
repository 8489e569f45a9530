// Accepts what NCCL does: contiguous arrays of one type.
#include "nixie/backends/cuda/families/collective.h"

#include <algorithm>
#include <numeric>

#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

bool agree(const Shape& shape, const Strides& a, const Strides& b) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1 && a[at(axis)] != b[at(axis)]) return false;
  return true;
}

class CollectiveFamily final : public Family {
 public:
  std::string_view name() const override { return "NCCL"; }
  Match match(const Plan& plan, const Kernel& kernel, const Chip&) const override {
    if (!kernel.head || !std::holds_alternative<Collective>(kernel.head->op)) return Refusal{"no collective"};
    if (!as_call(plan, kernel)) return Refusal{"a result of another type or order than the operand, or stages"};
    return Choice{.kernel = kernel};
  }
  KernelCode generate(const Plan&, const Choice& choice, const Chip&, const std::string&) const override {
    fail(Fault::usage, "\"", choice.kernel.label, "\" is a call of NCCL, not a program");
  }
};

}  // namespace

Strides dense_like(const Shape& shape, const Strides& order) {
  std::vector<int> axes(order.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::ranges::stable_sort(axes, [&](int a, int b) {
    const bool one_a = shape[a] == 1, one_b = shape[b] == 1;  // their strides mean nothing
    return one_a != one_b ? one_b : !one_a && order[at(a)] < order[at(b)];
  });
  Strides strides(order.size(), 1);
  std::int64_t step = 1;
  for (int axis : axes) {
    strides[at(axis)] = step;
    step *= shape[axis];
  }
  return strides;
}

std::optional<CollectiveCall> as_call(const Plan& plan, const Kernel& kernel) {
  if (!only_stores_head(kernel)) return {};
  const auto* op = std::get_if<Collective>(&kernel.head->op);
  const Operand& from = kernel.head->operands[0];
  const Access& to = kernel.stores[0];
  const Dtype dtype = dtype_of(plan, from.slot);
  const bool fits = op && dtype_of(plan, to.slot) == dtype &&
                    agree(from.shape, from.strides, dense_like(from.shape, from.strides)) &&
                    agree(kernel.domain, to.strides, dense_like(kernel.domain, from.strides));
  if (!fits) return {};
  const bool is_scattered = op->kind == CollectiveKind::reduce_scatter;
  return CollectiveCall{.op = *op,
                        .from = from.slot,
                        .to = to.slot,
                        .from_offset = from.offset * size_of(dtype),
                        .to_offset = to.offset * size_of(dtype),
                        .count = is_scattered ? kernel.domain.size() : from.shape.size(),
                        .dtype = dtype};
}

const Family& collective() {
  static const CollectiveFamily family;
  return family;
}

std::vector<CollectiveCall> collective_calls(const Plan& plan, const Group& group) {
  const auto* by = dynamic_cast<const Implementers*>(group.implementation.get());
  std::vector<CollectiveCall> calls;
  if (!by || by->choices.front().family != &collective()) return calls;
  for (int k : group.members) calls.push_back(*as_call(plan, plan.kernels[at(k)]));
  return calls;
}

}  // namespace nixie::cuda
