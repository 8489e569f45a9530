// Random operands made on the host, so that no kernel must be compiled for each of their shapes; and distributions that
// try how far sums of products keep their digits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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

/// Values in [-0.5, 0.5) of this type, the same for the same purpose.
Array host_noise(const Shape& shape, Dtype dtype, std::string_view purpose);

}  // namespace nixie::benchmark
