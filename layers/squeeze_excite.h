// SqueezeExcite: scales channels by gates computed from their means over the image.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, H, W]: x * sigmoid(fc2(relu(fc1(mean of x over its pixels)))), with fc1 to `squeeze` channels and fc2 back
/// (Hu et al. 2018). Parameters have torchvision's names and shapes: fc1.weight [squeeze, C, 1, 1], fc1.bias, fc2...
struct SqueezeExcite {
  int squeeze = 16;

  static constexpr const char* name = "squeeze_excite";
  static constexpr auto fields() {
    return field_list(field("squeeze", &SqueezeExcite::squeeze, "channels of the bottleneck", {1}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
