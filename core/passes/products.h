// Matrix products that other work replaces: of few terms by arithmetic, of scaled 8-bit floats by those of the floats.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// Replaces matrix products over at most 4 terms, and 1x1 convolutions and their input gradients over at most 4
/// channels or filters, by that many products, broadcast and added in f32 (f64 in f64). They wait for the memory of
/// their results whoever computes them: kernels for long sums mostly multiply zeros. So the gradient of a linear layer
/// with one output, of the last layer of a segmentation of few classes, or of the weights for one sample is
/// never stored.
Graph expand_short_products(const Graph& graph);

/// Matrix products whose operands are both 8-bit floats times one power of two each (`quantized_by`), seen through
/// views, become products of these floats times both powers of two. Terms are the same, and so are the sums while the
/// product of the two scales is in [2^-126, 2^127] and no sum leaves f32; the order of terms is the kernel's.
Graph multiply_stored_numbers(const Graph& graph);

}  // namespace nixie
