// Distributions of operands that try how far sums of products keep their digits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nixie/core/base/array.h"

namespace nixie::benchmark {

struct Distribution {
  std::string name;  ///< `normal x exp(4 normal)`
  /// f32 values of a shape [N, C, ...]; the same for the same seed.
  std::function<Array(const Shape&, std::uint64_t seed)> draw;
};

/// From uniform numbers to those that spread over fifty decades, sparse ones, and channels with scales of their own.
std::vector<Distribution> distributions();

}  // namespace nixie::benchmark
