// Products of 8-bit floats: kernels multiply the stored numbers, and their scales afterwards.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// Matrix products whose operands are both 8-bit floats times one power of two each (`quantized_by`), seen through
/// views, become products of these floats times both powers of two. Terms are the same, and so are the sums while the
/// product of the two scales is in [2^-126, 2^127] and no sum leaves f32; the order of terms is the kernel's.
Graph multiply_stored_numbers(const Graph& graph);

}  // namespace nixie
