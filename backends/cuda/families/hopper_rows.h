// Input gradients of layers with few channels, for conv_rows_sm90.cuh: which they are, and their programs.
#pragma once

#include "nixie/backends/cuda/families/hopper_conv.h"

namespace nixie::cuda {

constexpr const char* kRowsWay = "rows";  ///< what this way to compute an input gradient is called

/// Whether the layer is an input gradient that conv_rows computes, and faster than conv_fprop.
bool fits_rows(const HopperConv& conv);

KernelCode generate_hopper_rows(const Plan& plan, const Kernel& kernel, const HopperConv& conv);

}  // namespace nixie::cuda
