// Upsample: larger signals, images and volumes by repetition or interpolation.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, spatial...] -> [N, C, factor * spatial...] with one to three spatial axes, as PyTorch's Upsample: `nearest`
/// repeats positions, `linear` (of images `bilinear`, too) interpolates along each axis the two neighbours of
/// (position + 0.5) / factor - 0.5, clamped to the axis (align_corners=False).
struct Upsample {
  PerAxis factor = 2;
  std::string mode = "nearest";

  static constexpr const char* name = "upsample";
  static constexpr auto fields() {
    return field_list(field("factor", &Upsample::factor, "scale factor", {1}),
                      field("mode", &Upsample::mode, "how values between are found; bilinear is linear, of images",
                            one_of("nearest linear bilinear")));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
