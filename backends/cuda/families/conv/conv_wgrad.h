// The limits of conv_wgrad, for rewrites that produce filter gradients for it.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// Why conv_wgrad does not compute a problem of these sizes; empty where it does.
std::string wgrad_limits(const ConvProblem& conv);

}  // namespace nixie::cuda
