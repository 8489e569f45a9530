// Phases of a strided convolution's input: pixels that use the same taps. Index arithmetic of strided_input_grads.cpp.
#pragma once

#include <cstdint>
#include <vector>

namespace nixie::cuda {

/// Pixels first, first + step, ... of an axis, and the taps they use: first_tap, first_tap + tap_step, ...
struct Phase {
  std::int64_t first = 0, step = 1, pixels = 0;
  std::int64_t first_tap = 0, tap_step = 1, taps = 0;
  int pad = 0, dilation = 1;  ///< of the stride-1 layer
};

std::vector<Phase> phases_of(std::int64_t pixels, std::int64_t window, int stride, int pad, int dilation);

/// The number of multiples of b in [0, a).
std::int64_t count_below(std::int64_t a, std::int64_t b);

}  // namespace nixie::cuda
