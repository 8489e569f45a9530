// Shared by the families that compete with conv_fprop for forward convolutions and input gradients.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// The unit of their estimates: clocks of an SM.
constexpr std::string_view kForwardClocks = "clocks of a forward convolution";

/// The choice for a convolution, input gradient or matrix product that conv_fprop can compute, unless `further` limits
/// refuse it.
Match match_forward(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& further = {});
/// Why groups are too narrow for tiles, or nothing if they are not.
std::string group_limits(const ConvProblem& conv);
/// Whether conv_fprop or conv_wgrad multiplies a kernel's f32 matrices faster than the library.
bool beats_library(const Plan& plan, const Kernel& kernel, const Chip& chip);
/// Why the kernel for the problem's role, conv_fprop or conv_wgrad, cannot compute a problem of these sizes; empty if
/// it can.
std::string tensor_core_limits(const ConvProblem& conv);

}  // namespace nixie::cuda
