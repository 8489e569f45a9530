// The estimate of conv_halo, for families that compete with it.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// Whether conv_halo can compute a convolution that conv_fprop accepts.
bool fits_halo(const ConvProblem& conv, const Chip& chip);
/// Its estimated time, in the unit of Tile::clocks.
double halo_clocks(const ConvProblem& conv, const Chip& chip);

}  // namespace nixie::cuda
