// Scale: a learnt factor for each channel.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, ...]: x * weight (+ bias), with weight and bias [C] along `axis` (LayerScale, Touvron et al. 2021). For files
/// of weights that have another name or shape: `parameter` is weight's name, and it has `trailing` more axes of size 1.
struct Scale {
  int axis = 1;
  bool bias = false;
  std::string parameter = "weight";
  int trailing = 0;
  Init init = Init::constant(1);
  Init bias_init = Init::zeros();

  static constexpr const char* name = "scale";
  static constexpr auto fields() {
    return field_list(field("axis", &Scale::axis, "axis with a factor for each position, other than the samples'"),
                      field("bias", &Scale::bias, "adds a bias"),
                      field("parameter", &Scale::parameter, "name of the factors in files of weights"),
                      field("trailing", &Scale::trailing, "axes of size 1 behind the factors' own", {0, 8}),
                      field("init", &Scale::init, "initial factors"),
                      field("bias_init", &Scale::bias_init, "initial biases"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
