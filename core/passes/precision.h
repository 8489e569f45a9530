// Precision: the pass that stores values and multiplies products as a policy says.
#pragma once

#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/state/graph.h"

namespace nixie {

/// The same graph under a policy. Only f32 values change; whatever is f64, half or an integer already stays. Under fp32
/// and tf32 that is only a mark on products (Math): what a backend makes of it, it says itself.
///
/// Under fp16 and bf16, convolutions and matrix products multiply halves and add in float, and what lies between them
/// (activations and their gradients) is stored in halves. These stay f32: Variables, gradients of parameters and
/// whatever goes into a new value of a Variable, results of reductions, and all between the last product and an output
/// of the step (the loss). A sum over samples with several elements, as a bias's gradient, is f32 itself, but what it
/// sums may be halves. A Variable that a product reads is read through its shadow, a half copy that the step's update
/// writes beside it. Arithmetic is done in float throughout.
Graph apply_precision(const Graph& graph, PrecisionPolicy precision);

}  // namespace nixie
