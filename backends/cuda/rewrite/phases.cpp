// Lists the phases along an axis.
#include "nixie/backends/cuda/rewrite/phases.h"

#include <algorithm>
#include <numeric>

#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {

std::int64_t count_below(std::int64_t a, std::int64_t b) { return a > 0 ? ceil_div(a, b) : 0; }

std::vector<Phase> phases_of(std::int64_t pixels, std::int64_t window, int stride, int pad, int dilation) {
  const int common = std::gcd(stride, dilation), period = stride / common;
  std::vector<Phase> phases;
  for (int first = 0; first < std::min<std::int64_t>(stride, pixels); ++first) {
    Phase phase{.first = first, .step = stride, .pixels = count_below(pixels - first, stride), .tap_step = period};
    for (int tap = 0; tap < std::min<std::int64_t>(period, window); ++tap) {
      if ((first + pad - tap * dilation) % stride != 0) continue;
      phase.first_tap = tap, phase.taps = count_below(window - tap, period);
      phase.pad = (first + pad - tap * dilation) / stride;
      phase.dilation = phase.taps > 1 ? dilation / common : 1;
    }
    phases.push_back(phase);
  }
  return phases;
}

}  // namespace nixie::cuda
