// The largest number of terms that tensor cores may add in one accumulator.
#pragma once

#include <cstdint>

namespace nixie::cuda {

/// They truncate sums after every 16 products, so errors have one sign and grow with the number of terms. 32,768 terms
/// err by at most 2048 * 2^-23 of the range of the partial sums, on average by half of that: a quarter of the error of
/// rounding such a result to f16. Longer sums are added in parts, in f32 with rounding to nearest.
constexpr std::int64_t kMostTensorTerms = 32768;

/// The number of blocks that share `terms` terms of a sum, in whole waves, so that none adds more.
constexpr std::int64_t blocks_for_terms(std::int64_t terms, std::int64_t together) {
  const std::int64_t most = kMostTensorTerms * together;
  return together * ((terms + most - 1) / most);
}

}  // namespace nixie::cuda
