// Limits and cost of conv_ffma, for forms of first layers (rewrite/unfold/form.cpp) and for the choice between
// multiply-adds and planes (conv_cost.cpp).
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// Why conv_ffma cannot compute a convolution of these sizes; empty if it can.
std::string ffma_limits(const ConvProblem& conv, const Chip& chip);
/// The work of conv_ffma for a problem within its limits.
Work ffma_work(const ConvProblem& conv, const Chip& chip);

}  // namespace nixie::cuda
