// The limits of conv_wgrad, for rewrites that produce filter gradients for it.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// Why conv_wgrad cannot compute a problem of these sizes; empty if it can.
std::string wgrad_limits(const ConvProblem& conv);

}  // namespace nixie::cuda
