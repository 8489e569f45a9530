// Upsample: larger images by repetition or interpolation.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, H, W] -> [N, C, factor H, factor W], as PyTorch's Upsample: `nearest` repeats pixels, `bilinear` interpolates
/// the four neighbours of (position + 0.5) / factor - 0.5, clamped to the image (align_corners=False).
struct Upsample {
  PerAxis factor = 2;
  std::string mode = "nearest";

  static constexpr const char* name = "upsample";
  static constexpr auto fields() {
    return field_list(field("factor", &Upsample::factor, "scale factor", {1}),
                      field("mode", &Upsample::mode, "how values between are found", one_of("nearest bilinear")));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
