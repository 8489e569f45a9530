// Gradients in smaller forms, for simplify: of arrays that are taken apart, through a max pooling, and of products.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "nixie/core/graph/op.h"
#include "nixie/core/graph/tensor.h"

namespace nixie {

/// Makes a node; `simplify` merges equal ones.
using MakeNode = std::function<Tensor(const Op&, std::vector<Tensor>, const Shape&, Dtype)>;

/// The sum of `terms`, which have the same shape and type, as a concatenation, if they are arrays padded with zeros
/// that fill the shape and do not overlap, and whole lines along some axis separate them; none otherwise.
std::optional<Tensor> concat_of_padded(const std::vector<Tensor>& terms, const MakeNode& make);

/// dx * gate, where dx is the gradient of max_pool(x) and the gate is true or false element by element of x, as the
/// gradient of gated dy; none if the product is another. Each window passes its dy to its maximum alone, so where x
/// decides whether a gradient passes, so does max_pool(x), which is smaller and spares keeping x for the backward pass.
std::optional<Tensor> gated_before_pooling(const Map& mul, const std::vector<Tensor>& factors, Dtype dtype,
                                           const MakeNode& make);

/// A reduction of all of x to one value, where x is made element by element of the gradient of a max pooling whose
/// windows do not overlap, as that of the pooled gradient, which is smaller, and of zeros; none if it is another. So
/// what measures such a gradient does not keep it.
std::optional<Tensor> reduced_before_pooling(const Reduce& reduce, const Tensor& x, const Shape& shape, Dtype dtype,
                                             const MakeNode& make);

/// Whether all elements of a product of f16 matrices in f32 are finite, as whether those of both matrices are, which
/// are fewer; none if the reduction is another. An infinity or a NaN of an operand makes its row or column one, and a
/// sum of finite terms below 2^32 is far below f32's largest number. So checking a weight's gradient does not read it.
std::optional<Tensor> finite_operands(const Reduce& reduce, const Tensor& x, const Shape& shape, Dtype dtype,
                                      const MakeNode& make);

}  // namespace nixie
