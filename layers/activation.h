// Activation layers: elementwise functions, and softmax.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// x for x > 0, else slope * x.
struct Relu {
  double slope = 0;

  static constexpr const char* name = "relu";
  static constexpr auto fields() { return field_list(field("slope", &Relu::slope, "factor of negative inputs")); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// min(max(x, 0), cut).
struct ReluClipped {
  double cut = 20;

  static constexpr const char* name = "relu_clipped";
  static constexpr auto fields() { return field_list(field("cut", &ReluClipped::cut, "largest output", {0})); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// 1 / (1 + e^-x).
struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// e^x over its sum along an axis. For a loss use cross_entropy on the logits instead.
struct Softmax {
  int axis = 1;

  static constexpr const char* name = "softmax";
  static constexpr auto fields() { return field_list(field("axis", &Softmax::axis, "axis that sums to 1")); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// x for x > 0, else alpha (e^x - 1).
struct Elu {
  double alpha = 1;

  static constexpr const char* name = "elu";
  static constexpr auto fields() {
    return field_list(field("alpha", &Elu::alpha, "minus the limit for large negative inputs"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// x Phi(x), by the error function.
struct Gelu {
  static constexpr const char* name = "gelu";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// x for x > 0, else slope * x, with PyTorch's slope.
struct LeakyRelu {
  double slope = 0.01;

  static constexpr const char* name = "leaky_relu";
  static constexpr auto fields() { return field_list(field("slope", &LeakyRelu::slope, "factor of negative inputs")); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// The same with a learnt slope, `weight` [1], or one for each channel, [C] (He et al. 2015).
struct Prelu {
  bool per_channel = false;
  Init init = Init::constant(0.25f);

  static constexpr const char* name = "prelu";
  static constexpr auto fields() {
    return field_list(field("per_channel", &Prelu::per_channel, "one slope per channel, not one for all"),
                      field("init", &Prelu::init, "initial slopes"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// x sigmoid(x).
struct Silu {
  static constexpr const char* name = "silu";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// x min(max(x + 3, 0), 6) / 6.
struct HardSwish {
  static constexpr const char* name = "hard_swish";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// min(max(x + 3, 0), 6) / 6.
struct HardSigmoid {
  static constexpr const char* name = "hard_sigmoid";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// log(1 + e^(beta x)) / beta.
struct Softplus {
  double beta = 1;

  static constexpr const char* name = "softplus";
  static constexpr auto fields() { return field_list(field("beta", &Softplus::beta, "sharpness", {1e-6})); }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
