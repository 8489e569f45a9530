// Bias gradients: sums of dy over images and pixels, fused into a filter gradient, which loads dy anyway.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// Where the sum over images and pixels of a 4-D operand, or over the terms of a matrix product whose operand 0 is dy
/// turned, goes, if a kernel computes and stores that, in f32.
const Access* stored_channel_sum(const Plan& plan, const Kernel& kernel, const Operand& of);

/// A filter gradient's choice together with another group that sums its operand 0 so.
std::optional<Absorption> with_channel_sum(const Grouping& grouping, const Choice& choice, std::size_t other);

}  // namespace nixie::cuda
