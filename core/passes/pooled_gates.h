// Gates behind the gradient of a max pooling: ReLU's gradient, where a pooling follows the ReLU.
#pragma once

#include "nixie/core/passes/padded_terms.h"

namespace nixie {

/// dx * gate, where dx is the gradient of max_pool(x) and the gate is true or false element by element of x, as the
/// gradient of gated dy; none if the product is another. Each window passes its dy to its maximum alone, so where x
/// decides whether a gradient passes, so does max_pool(x), which is smaller and spares keeping x for the backward pass.
std::optional<Tensor> gated_before_pooling(const Map& mul, const std::vector<Tensor>& factors, Dtype dtype,
                                           const MakeNode& make);

}  // namespace nixie
