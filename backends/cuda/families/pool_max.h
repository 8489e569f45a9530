// Max pooling of channels-last images, by pool_max.cuh.
#pragma once

#include <array>
#include <variant>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// Max pooling over windows of pixels, or its gradient.
struct PoolProblem {
  bool backward = false;
  int images = 0, channels = 0, height = 0, width = 0, p = 0, q = 0;
  std::array<int, 2> window{}, stride{}, pad{};
  Dtype dtype = Dtype::f16;
};

std::variant<PoolProblem, Refusal> pool_problem(const Plan& plan, const Kernel& kernel);
inline const PoolProblem& pool_problem_of(const Choice& choice) {
  return std::any_cast<const PoolProblem&>(choice.sizes);
}

const Family& pool_max();

}  // namespace nixie::cuda
