// SqueezeExcite: scales channels by gates computed from their means over all positions.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, spatial...] with one to three spatial axes: x * gate(fc2(activation(fc1(mean of x over its positions)))),
/// with fc1 to `squeeze` channels and fc2 back (Hu et al. 2018). Parameters have torchvision's names and shapes:
/// fc1.weight [squeeze, C, 1...], fc1.bias, fc2...
struct SqueezeExcite {
  int squeeze = 16;
  std::string activation = "relu", gate = "sigmoid";

  static constexpr const char* name = "squeeze_excite";
  static constexpr auto fields() {
    return field_list(
        field("squeeze", &SqueezeExcite::squeeze, "channels of the bottleneck", {1}),
        field("activation", &SqueezeExcite::activation, "function of the bottleneck",
              one_of("relu silu hard_swish gelu tanh")),
        field("gate", &SqueezeExcite::gate, "function of the gates", one_of("sigmoid hard_sigmoid tanh")));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
