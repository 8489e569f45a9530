// What a loss refuses that applies softmax or sigmoid itself: an output that has been through one.
#pragma once

#include "nixie/core/graph/tensor.h"

namespace nixie {

/// `softmax` or `sigmoid` if the value is a result of core's function of that name, also seen in another shape, order
/// or type; else "".
std::string squashed_by(const Tensor& output);
/// Throws for an output that is such a result; `function` is the one that the loss applies to its output.
void check_logits(const Tensor& output, const char* function);

}  // namespace nixie
