// Small layers of f32 in planes of halves, whatever the estimates say of their size.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include <algorithm>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/graph/forwarding_backend.h"

namespace nixie {

/// Whether a plan multiplies f32 as it is.
inline bool is_ieee(const Plan& plan) {
  return std::ranges::any_of(plan.kernels, [&](const Kernel& kernel) {
    if (!kernel.head || !cuda::all_f32(plan, *kernel.head)) return false;
    const auto* conv = std::get_if<Conv>(&kernel.head->op);
    const auto* product = std::get_if<Matmul>(&kernel.head->op);
    return (conv && conv->math == Math::ieee) || (product && product->math == Math::ieee);
  });
}

/// The chip with f32 kernels so slow that operands of any size are split, for plans that may split them.
inline cuda::Chip splitting(cuda::Chip chip, const Plan& plan) {
  if (!is_ieee(plan)) chip.multiply_add_speed = 1e-6;
  return chip;
}

/// A CUDA backend that lowers for such a chip.
class Splitting final : public ForwardingBackend {
 public:
  Splitting(std::shared_ptr<Backend> cuda, const cuda::Chip& chip) : ForwardingBackend(std::move(cuda)), chip_(chip) {}
  void lower(Plan& plan) override { cuda::lower(plan, splitting(chip_, plan)); }

 private:
  cuda::Chip chip_;
};

}  // namespace nixie
#endif
