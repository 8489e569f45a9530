// Normalisation within a sample: over all of its features, or over groups of channels.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// (x - mean) / sqrt(variance + eps) over the axes from `first` to `last` of each sample (Ba et al. 2016), as PyTorch
/// computes it; weight and bias have the sizes of these axes. With first and last 1 the channels of each pixel are
/// normalised (ConvNeXt's LayerNorm2d).
struct LayerNorm {
  int first = 1, last = -1;
  double eps = 1e-5;
  bool affine = true;
  Init init = Init::constant(1);
  Init bias_init = Init::zeros();

  static constexpr const char* name = "layer_norm";
  static constexpr auto fields() {
    return field_list(field("first", &LayerNorm::first, "first of the axes that are normalised together", {1}),
                      field("last", &LayerNorm::last, "last of them, -1 = the last axis", {-1}),
                      field("eps", &LayerNorm::eps, "added to the variance", {0}),
                      field("affine", &LayerNorm::affine, "has a weight and a bias"),
                      field("init", &LayerNorm::init, "initial weights"),
                      field("bias_init", &LayerNorm::bias_init, "initial biases"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

/// [N, C, spatial...]: the same over each of `groups` groups of neighbouring channels and all their positions (Wu and
/// He 2018); weight and bias are per channel.
struct GroupNorm {
  int groups = 32;
  double eps = 1e-5;
  bool affine = true;
  Init init = Init::constant(1);
  Init bias_init = Init::zeros();

  static constexpr const char* name = "group_norm";
  static constexpr auto fields() {
    return field_list(field("groups", &GroupNorm::groups, "number of channel groups", {1}),
                      field("eps", &GroupNorm::eps, "added to the variance", {0}),
                      field("affine", &GroupNorm::affine, "has a weight and a bias"),
                      field("init", &GroupNorm::init, "initial weights"),
                      field("bias_init", &GroupNorm::bias_init, "initial biases"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
