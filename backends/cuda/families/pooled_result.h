// Fuses a 2x2 max pooling into the epilogue of the forward convolution before it.
#pragma once

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/families/pool_max.h"

namespace nixie::cuda {

/// A kernel's work on its head's result: max(head + load `bias`, 0), or part of that formula.
struct BiasRelu {
  std::optional<int> bias = {};
  bool relu = false;
  std::size_t instructions = 1;  ///< that the formula takes, the head's included
};
/// None where one stage does not store such a formula once.
std::optional<BiasRelu> bias_relu_of(const Kernel& kernel);

/// Whether a pooling takes a convolution's results in adjacent windows of 2x2.
bool pools_by_two(const PoolProblem& pool, const ConvProblem& conv);

/// A forward convolution's choice with the pooling fused that is the only reader
/// of its result. The result must be max(head + bias, 0), with or without bias
/// and ReLU; the pooling must have adjacent 2x2 windows and compute the index.
std::optional<Absorption> with_pooling(const Grouping& grouping, const Choice& choice, std::size_t other,
                                       const ConvProblem& conv);

}  // namespace nixie::cuda
