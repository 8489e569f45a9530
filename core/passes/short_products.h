// Products whose sums have few terms become elementwise work, which fuses with what is around it.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// Replaces matrix products over at most 4 terms, and 1x1 convolutions and their input gradients over at most 4
/// channels or filters, by that many products, broadcast and added in f32 (f64 in f64). They wait for the memory of
/// their results whoever computes them: kernels for long sums mostly multiply zeros. So the gradient of a linear layer
/// with one output, of the last layer of a segmentation of few classes, or of the weights for one sample is
/// never stored.
Graph expand_short_products(const Graph& graph);

}  // namespace nixie
