// Copies results and gradients of max poolings to channels-last,
// which pool_max needs; they are smaller than the images.
#include "nixie/backends/cuda/families/pool_max.h"
#include "nixie/backends/cuda/rewrite/kernels.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

bool fits(const Plan& plan, const Kernel& kernel) {
  return std::holds_alternative<PoolProblem>(pool_problem(plan, kernel));
}

bool is_max_pool(const Kernel& kernel, PoolRole role) {
  const auto* pool = kernel.head ? std::get_if<Pool>(&kernel.head->op) : nullptr;
  return pool && pool->kind == PoolKind::max && pool->role == role && kernel.domain.rank() == 4;
}

}  // namespace

void lay_out_pools(Plan& plan) {
  std::vector<Kernel> kernels;
  for (Kernel& kernel : plan.kernels) {
    const std::size_t slots = plan.slots.size();
    if (is_max_pool(kernel, PoolRole::output) && !fits(plan, kernel)) {
      auto [alone, rest] = split_head(plan, kernel, kernel.domain.channels_last(), "max_pool");
      plan.slots.back().dtype = dtype_of(plan, kernel.head->operands[0]);
      if (fits(plan, alone)) {
        kernels.push_back(std::move(alone));
        kernel = std::move(rest);
      } else {
        plan.slots.resize(slots);
      }
    } else if (is_max_pool(kernel, PoolRole::input_grad) && !fits(plan, kernel)) {
      const Kernel before = kernel;
      Operand& dy = kernel.head->operands[0];
      Kernel copy = pack(plan, dy, dy.shape.channels_last(), dtype_of(plan, dy), "gradient");
      if (fits(plan, kernel)) {
        kernels.push_back(std::move(copy));
      } else {
        plan.slots.resize(slots);
        kernel = before;
      }
    }
    kernels.push_back(std::move(kernel));
  }
  plan.kernels = std::move(kernels);
}

}  // namespace nixie::cuda
