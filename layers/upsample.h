// Upsample: signals, images and volumes of another size, by repetition or interpolation.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, spatial...] -> [N, C, factor * spatial...] or [N, C, size...] with one to three spatial axes, as PyTorch's
/// Upsample and interpolate (core/ops/ops.h, `resize`): `nearest` repeats positions, `linear` and `cubic` interpolate
/// along each axis the two or four neighbours of (position + 0.5) in / out - 0.5; of images they may be called
/// `bilinear` and `bicubic`.
struct Upsample {
  PerAxis factor = 2, size = 0;
  std::string mode = "nearest";
  bool align_corners = false, antialias = false;

  static constexpr const char* name = "upsample";
  static constexpr auto fields() {
    return field_list(
        field("factor", &Upsample::factor, "scale factor, where no size is given", {1}),
        field("size", &Upsample::size, "sizes of the result, larger or smaller; 0 = by the factor", {0}),
        field("mode", &Upsample::mode,
              "how values between are found; bilinear and bicubic are linear and cubic, of images",
              one_of("nearest linear bilinear cubic bicubic")),
        field("align_corners", &Upsample::align_corners,
              "the first and the last position stay in place; not for nearest"),
        field("antialias", &Upsample::antialias, "where an axis shrinks, the kernel is wider; not for nearest"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
