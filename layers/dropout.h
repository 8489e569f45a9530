// Dropout: sets a random fraction of the inputs to zero in training.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// Training: x * mask / (1 - rate). The mask is 0 with probability `rate`, a function only of the pass's seed and step,
/// the layer's name and the element. Evaluation: x.
struct Dropout {
  double rate = 0.5;

  static constexpr const char* name = "dropout";
  static constexpr auto fields() {
    return field_list(field("rate", &Dropout::rate, "fraction of inputs set to zero", {0, 1}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, C, ...]: the same for whole channels (Tompson et al. 2015).
struct Dropout2d {
  double rate = 0.5;

  static constexpr const char* name = "dropout2d";
  static constexpr auto fields() {
    return field_list(field("rate", &Dropout2d::rate, "fraction of channels set to zero", {0, 1}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, ...]: the same for whole samples, in the branch of a residual block (stochastic depth, Huang et al. 2016).
struct DropPath {
  double rate = 0.1;

  static constexpr const char* name = "drop_path";
  static constexpr auto fields() {
    return field_list(field("rate", &DropPath::rate, "fraction of samples set to zero", {0, 1}));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
