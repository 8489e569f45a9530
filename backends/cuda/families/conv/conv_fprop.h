// Shared by the families that compete with conv_fprop for forward convolutions and input gradients.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// The unit of their estimates: clocks of an SM.
constexpr std::string_view kForwardClocks = "clocks of a forward convolution";

/// The choice for a convolution, input gradient or matrix product that conv_fprop can compute, unless `further` limits
/// refuse it.
Match match_forward(const Plan& plan, const Kernel& kernel, const Chip& chip, const Limits& further = {});
/// Whether groups are too narrow for tiles; empty where they are not.
std::string group_limits(const ConvProblem& conv);
/// Why neither conv_fprop nor conv_wgrad, whichever the role asks for, computes a problem of these sizes; empty where
/// it does.
std::string tensor_core_limits(const ConvProblem& conv);

}  // namespace nixie::cuda
