// Lowering: what the CUDA backend changes in a plan before memory is laid out.
#pragma once

#include "core/plan.h"

namespace nixie::cuda {

/// Splits kernels whose matrix product a library computes into the product and the stages that follow it, and copies
/// filters to channels-last where the images are.
void lower(Plan& plan);

}  // namespace nixie::cuda
