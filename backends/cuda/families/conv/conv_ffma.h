// What the rewrite of first layers by rows asks of conv_ffma.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// Why conv_ffma does not compute a convolution of these sizes; empty where it does.
std::string ffma_limits(const ConvProblem& conv, const Chip& chip);

}  // namespace nixie::cuda
