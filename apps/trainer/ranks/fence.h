// Fences: what keeps kernels from doing the work of two shards, whose sums then depend on how many a rank has.
#pragma once

#include "nixie/core/graph/world.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

/// A process that exchanges with itself.
const World& own_world();

/// x, as exchanged by a process with itself. Exchanges run in the order in which they were made, and no kernel goes
/// beyond one: what is computed from a fenced value and ends in fenced ones shares no kernel with what lies before
/// or behind.
Tensor fenced(const Tensor& x);

}  // namespace nixie
