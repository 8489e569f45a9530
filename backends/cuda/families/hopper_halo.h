// Convolutions whose taps share a patch of pixels, for conv_halo_sm90.cuh: which they are, and their programs.
#pragma once

#include "nixie/backends/cuda/families/hopper_conv.h"

namespace nixie::cuda {

constexpr const char* kHaloWay = "halo";  ///< what this way to compute a convolution is called

/// Whether the layer is a forward pass or an input gradient that conv_halo computes, with patches that tile the images.
bool fits_halo(const HopperConv& conv);
/// Whether such a forward pass can be pooled over windows of 2x2 on the way, and is the way that the estimates take.
bool pools_halo(const HopperConv& conv);
/// How long the convolution takes, in the unit of Tile::clocks.
double halo_clocks(const HopperConv& conv);

KernelCode generate_hopper_halo(const Plan& plan, const Kernel& kernel, const HopperConv& conv);

}  // namespace nixie::cuda
