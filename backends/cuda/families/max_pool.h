// Max pooling of channels-last halves or floats by pool_max.cuh: which kernels of a plan it runs, and their programs.
#pragma once

#include <array>
#include <optional>

#include "nixie/backends/cuda/generate/codegen.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// Max pooling over windows of pixels. Forward: the kernel's second store, if there is one, takes the index. Backward:
/// the head's third operand, if there is one, is the pooling's output, and windows whose maximum is not above zero pass
/// no gradient.
struct MaxPool {
  bool backward = false, extra = false;  ///< extra: that store or operand
  int images = 0, channels = 0, height = 0, width = 0, p = 0, q = 0;
  std::array<int, 2> window{}, stride{}, pad{};
  Dtype dtype = Dtype::f16;
};

std::optional<MaxPool> as_max_pool(const Plan& plan, const Kernel& kernel);
KernelCode generate_max_pool(const Plan& plan, const Kernel& kernel, const MaxPool& pool);

/// Copies what lies otherwise to channels-last. `joins`: lets one kernel make a pooling's output and index, and has the
/// gradient through a ReLU before a pooling look at the pooling's output instead of the ReLU's, which is larger.
void lower_max_pools(Plan& plan, bool joins);

}  // namespace nixie::cuda
