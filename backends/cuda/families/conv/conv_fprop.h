// Shared by the families that compete with conv_fprop for forward convolutions and input gradients.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// The unit of their estimates: clocks of an SM.
constexpr std::string_view kForwardClocks = "clocks of a forward convolution";

/// The choice for a convolution, input gradient or matrix product that conv_fprop can compute, unless `further` limits
/// refuse it.
Match match_forward(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& further = {});
/// Whether conv_fprop or conv_wgrad multiplies a kernel's f32 matrices faster than the library.
bool beats_library(const Plan& plan, const Kernel& kernel, const Chip& chip);

}  // namespace nixie::cuda
