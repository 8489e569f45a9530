// What ranks exchange of a gradient.
#pragma once

#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/graph/world.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

/// The type in which a parameter's gradient travels: under fp16 and bf16 halves, where it has two axes or more; biases
/// and the like, which are few numbers, stay f32.
Dtype exchanged_dtype(const Tensor& gradient, PrecisionPolicy precision);

/// The sum over the ranks of a parameter's gradient, of its type. As halves, each rank's gradient over the number of
/// ranks is rounded, these are added in f32, and the sum is rounded. What `ordered` runs add up is f32 (Shards::sum),
/// since their sums must not depend on where they are cut.
Tensor gradient_sum(const World& world, const Tensor& gradient, PrecisionPolicy precision);

}  // namespace nixie
