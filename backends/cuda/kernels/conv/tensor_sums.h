// The most terms that a kernel lets tensor cores add in one accumulator.
#pragma once

#include <cstdint>

namespace nixie::cuda {

/// Tensor cores truncate sums after every 16 products, so errors have one sign and grow with the number of terms. The
/// error of 32,768 terms is at most 2048 * 2^-23 of the range of the partial sums, and half of that on average: a
/// quarter of the error of rounding such a result to f16. Longer sums are added in parts, in f32, rounded to nearest.
constexpr std::int64_t kMostTensorTerms = 32768;

/// The number of blocks that share a sum of `terms` terms so that none adds more: a multiple of `together`.
constexpr std::int64_t blocks_for_terms(std::int64_t terms, std::int64_t together) {
  const std::int64_t most = kMostTensorTerms * together;
  return together * ((terms + most - 1) / most);
}

}  // namespace nixie::cuda
