// Phases: the pixels of a convolution's result that use the same taps, and the offsets of those taps in a frame.
#pragma once

#include "nixie/backends/cpu/contract/conv.h"

namespace nixie::cpu {

struct Tap {
  std::int64_t frame;   ///< offset in a channel of the frame
  std::int64_t weight;  ///< offset in a filter's channel
};

/// Pixels of the result whose windows meet the same taps: all of them for the output, those of equal remainder modulo
/// the stride for the input's gradient.
struct Phase {
  FrameLayout frame;
  std::vector<Tap> taps;
  Sizes count;        ///< pixels
  Sizes pixel_step;   ///< planes and rows of the frame from pixel to pixel
  Sizes first, step;  ///< of the pixels in the result
  /// In a channel of the frame, of the first pixel of a row.
  std::int64_t pixel_offset(std::int64_t d, std::int64_t h) const {
    return d * pixel_step[0] * frame.plane() + h * pixel_step[1] * frame.row();
  }
  std::int64_t pixels() const { return count[0] * count[1] * count[2]; }
};

/// Calls `visit(d, h, w)` over a box.
template <class Visit>
void for_each_in(const Sizes& sizes, const Visit& visit) {
  for (std::int64_t d = 0; d < sizes[0]; ++d)
    for (std::int64_t h = 0; h < sizes[1]; ++h)
      for (std::int64_t w = 0; w < sizes[2]; ++w) visit(d, h, w);
}

/// The one phase of the output: all pixels, all taps.
Phase output_phase(const ConvShape& shape, const Sizes& weight_strides);
/// The phase of input_grad whose pixels, padding added, leave `remainder` modulo the stride.
Phase input_grad_phase(const ConvShape& shape, const Sizes& weight_strides, const Sizes& remainder);

}  // namespace nixie::cpu
