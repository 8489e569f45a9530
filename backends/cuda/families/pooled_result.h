// Forward convolutions with the 2x2 max pooling after them in their epilogue.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// A forward convolution's choice together with the pooling that alone reads its result, where that is max(head + bias,
/// 0) or part of it, and the pooling is of 2x2 windows side by side and makes the index, too.
std::optional<Absorption> with_pooling(const Grouping& grouping, const Choice& choice, std::size_t other,
                                       const ConvProblem& conv);

}  // namespace nixie::cuda
