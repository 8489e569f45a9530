// Linear: a matrix product and a bias.
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

/// Rows of a table: indices (any shape, numbers of any type) -> [their shape, size]. What is no whole number from 0 to
/// count - 1 gives NaN, which ends a run.
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
