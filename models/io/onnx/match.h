// Layers that ONNX has as one op, recognised in a graph by their parts.
#pragma once

#include <memory>
#include <optional>

#include "nixie/core/state/variable.h"

namespace nixie {

using VariablePointer = std::shared_ptr<VariableState>;

/// The node's op if it is of this kind, else null.
template <class T>
const T* as(const Tensor& x) {
  return std::get_if<T>(&x.node().op);
}

/// (x - mean) * rsqrt(var + eps) * weight + bias, all per channel.
struct BatchNormMatch {
  Tensor x;
  VariablePointer mean, var, weight, bias;  // weight and bias: both or none
  double eps = 0;
};

std::optional<BatchNormMatch> match_batch_norm(const Tensor& y);

/// A product and its bias as one op: x with a filter [K, ...], or x W'.
struct ProductMatch {
  Tensor product;
  VariablePointer weight, bias;  // bias may be null
};

std::optional<ProductMatch> match_product(const Tensor& y);

}  // namespace nixie
