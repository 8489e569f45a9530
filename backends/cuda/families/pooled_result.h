// Fuses a 2x2 max pooling into the epilogue of the forward convolution before it.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// A forward convolution's choice with the pooling fused that is the only reader
/// of its result. The result must be max(head + bias, 0), with or without bias
/// and ReLU; the pooling must have adjacent 2x2 windows and compute the index.
std::optional<Absorption> with_pooling(const Grouping& grouping, const Choice& choice, std::size_t other,
                                       const ConvProblem& conv);

}  // namespace nixie::cuda
