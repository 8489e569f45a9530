// Small layers of f32 in planes of halves, whatever the estimates say of their size.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/tests/backends/forwarding_backend.h"

namespace nixie {

/// The chip with f32 kernels so slow that operands of any size are split.
inline cuda::Chip splitting(cuda::Chip chip) {
  chip.multiply_add_speed = 1e-6;
  return chip;
}

/// A CUDA backend that lowers for such a chip.
class Splitting final : public Forwarding {
 public:
  Splitting(std::shared_ptr<Backend> cuda, const cuda::Chip& chip)
      : Forwarding(std::move(cuda)), chip_(splitting(chip)) {}
  void lower(Plan& plan) override { cuda::lower(plan, chip_); }

 private:
  cuda::Chip chip_;
};

}  // namespace nixie
#endif
