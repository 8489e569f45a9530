// Reductions of all that a program stores to one value, accumulated in its epilogue: each warp stores a partial result,
// and the group that needs the reductions reads these in place of the values.
#pragma once

#include "nixie/backends/cuda/families/family.h"
#include "nixie/backends/cuda/generate/nhwc_functor.h"

namespace nixie::cuda {

/// Moves the reductions of another group's kernel into the epilogue of `choice`: returns the choice, whose warps now
/// also store parts, and the other group's choice, which reduces these. Possible if they are sums, products, maxima or
/// minima over all axes of nothing but values that the choice stores. `count`: the most warps that run the epilogue. If
/// nothing else reads the values, the program does not store them.
std::optional<Absorption> with_warp_parts(const Grouping& grouping, const Choice& choice, std::size_t other,
                                          std::int64_t count);

/// `#define WARP_PARTS`, if the program stores parts.
std::string warp_parts_defines(const Choice& choice);

}  // namespace nixie::cuda
