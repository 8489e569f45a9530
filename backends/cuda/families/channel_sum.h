// Bias gradients: sums of dy over images and pixels, fused into a filter gradient, which loads dy anyway.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// Whether a kernel keeps axis 1, that of channels, and no other of more than one position.
bool reduces_to_channels(const Kernel& kernel);

/// Where a kernel stores, in f32, the sum of a 4-D operand over images and pixels, or of the transposed dy that is
/// operand 0 of a matrix product over the product's terms; null if it computes no such sum.
const Access* stored_channel_sum(const Plan& plan, const Kernel& kernel, const Operand& of);

/// A filter gradient's choice with another group fused that computes such a sum of its operand 0.
std::optional<Absorption> with_channel_sum(const Grouping& grouping, const Choice& choice, std::size_t other);

}  // namespace nixie::cuda
