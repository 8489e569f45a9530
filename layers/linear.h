// Layers of learnt products: Linear, Scale, and Embedding, which picks rows.
#pragma once

#include "nixie/layers/layer.h"

namespace nixie {

/// [N, in] -> [N, out]: x weight' + bias, with weight [out, in] and bias [out]. With `axis` the input has any rank, and
/// the product is along that axis, other than that of N: [N, T, in] -> [N, T, out] for -1.
struct Linear {
  int out = 0;
  bool bias = true;
  std::optional<int> axis = {};
  Init init = Init::kaiming();
  Init bias_init = Init::zeros();

  static constexpr const char* name = "linear";
  static constexpr auto fields() {
    return field_list(field("out", &Linear::out, "number of outputs", {1}), field("bias", &Linear::bias, "adds a bias"),
                      field("axis", &Linear::axis,
                            "axis of the features, -1 = the last, others are kept; null: the input is [N, features]"),
                      field("init", &Linear::init, "initial weights"),
                      field("bias_init", &Linear::bias_init, "initial biases"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

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

/// Rows of a table: indices (any shape, numbers of any type) -> [their shape, size]. An index that is no whole number
/// from 0 to count - 1 gives NaN, which ends a run.
struct Embedding {
  int count = 0, size = 0;
  Init init = Init::normal(1);

  static constexpr const char* name = "embedding";
  static constexpr auto fields() {
    return field_list(field("count", &Embedding::count, "number of rows", {1}),
                      field("size", &Embedding::size, "size of a row", {1}),
                      field("init", &Embedding::init, "initial weights"));
  }
  Forward build(const Shape& in, Parameters& parameters) const;
};

}  // namespace nixie
