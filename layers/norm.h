// Normalisation layers: batch normalisation and local response normalisation.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, C, spatial...], with any number of spatial axes: (x - mean) / sqrt(variance + eps) * weight + bias per channel
/// (Ioffe and Szegedy 2015), as in PyTorch. Training normalises with the batch's mean and biased variance and sets
///   running = (1 - momentum) running + momentum batch,
/// with the unbiased variance; evaluation normalises with running_mean and running_var.
struct BatchNorm {
  double eps = 1e-5, momentum = 0.1;
  bool affine = true;
  Init init = Init::constant(1);
  Init bias_init = Init::zeros();

  static constexpr const char* name = "batch_norm";
  static constexpr auto fields() {
    return field_list(field("eps", &BatchNorm::eps, "added to the variance", {0}),
                      field("momentum", &BatchNorm::momentum, "weight of the batch in the running statistics", {0, 1}),
                      field("affine", &BatchNorm::affine, "has a weight and a bias"),
                      field("init", &BatchNorm::init, "initial weights"),
                      field("bias_init", &BatchNorm::bias_init, "initial biases"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ^ beta (Krizhevsky et al. 2012).
struct Lrn {
  int size = 5;
  double alpha = 1e-4, beta = 0.75, bias = 1;

  static constexpr const char* name = "lrn";
  static constexpr auto fields() {
    return field_list(field("size", &Lrn::size, "neighbouring channels", {1}),
                      field("alpha", &Lrn::alpha, "factor of the mean square"), field("beta", &Lrn::beta, "exponent"),
                      field("bias", &Lrn::bias, "added to the mean square"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
