// u64 as i64 of the same order, its highest bit flipped: backends compare, sort and scan i64 alone.
#pragma once

#include "nixie/core/graph/tensor.h"

namespace nixie {

Tensor as_ordered(const Tensor& x);                 ///< other types as they are
Tensor from_ordered(const Tensor& x, Dtype dtype);  ///< back to `dtype`, the type before

}  // namespace nixie
