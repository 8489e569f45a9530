// Precision: the pass that applies a precision policy to stored values and products.
#pragma once

#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/state/graph.h"

namespace nixie {

/// The same graph under a policy. Only f32 values change; f64, half and integer values stay, but for squares. fp32 and
/// tf32 only mark products (Math); each backend decides how to compute them.
///
/// Under fp16 and bf16, convolutions and matrix products multiply halves and add in float, and values between them
/// (activations and their gradients) are stored in halves. These stay f32: Variables, gradients of parameters and
/// everything that goes into a new value of a Variable, results of reductions, and everything between the last product
/// and an output of the step (the loss). A sum over samples with several elements, such as a bias gradient, is f32
/// itself, but its terms may be halves. A product reads a Variable through its shadow, a half copy that the step's
/// update writes beside it. Arithmetic uses float throughout.
///
/// Under every policy the squares of halves that are summed stay f32, and their sums (wide_squares.h).
Graph apply_precision(const Graph& graph, PrecisionPolicy precision);

}  // namespace nixie
