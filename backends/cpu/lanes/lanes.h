// The implementation of each primitive on a run of lanes.
#pragma once

#include <cstdint>

#include "nixie/core/graph/instruction.h"

namespace nixie::cpu {

/// Lanes of a full tile: a register of floats is 4 KiB, so that a formula's live registers stay in the L1 cache.
inline constexpr std::int64_t kTileLanes = 1024;
/// Functions run on a multiple of this many lanes. Every element then takes the vector path, wherever it is in
/// its tile, and gets the same bits.
inline constexpr std::int64_t kLaneBlock = 16;

inline std::int64_t round_up_lanes(std::int64_t n) { return (n + kLaneBlock - 1) / kLaneBlock * kLaneBlock; }

/// out[i] = f(a[i], b[i], c[i]) for i < n, a multiple of kLaneBlock; unused operands are ignored. `out` overlaps none.
using LaneFunction = void (*)(const void* a, const void* b, const void* c, void* out, std::int64_t n);

/// The function of a primitive that computes; null where the primitive has no meaning for the type.
/// `from` is the operand's type of a cast.
LaneFunction lane_function(Primitive primitive, Dtype type, Dtype from);

/// out[i] = second(first(a[i], b[i]), c[i]), or second(c[i], first(a[i], b[i])) where the first's result is not on the
/// left, in one pass; null for primitives and types that have none.
LaneFunction pair_function(Primitive first, Primitive second, bool left, Dtype type);

// Its parts: arithmetic, comparisons, bits and casts; and the functions of floating types.
LaneFunction arithmetic_function(Primitive primitive, Dtype type);
LaneFunction math_function(Primitive primitive, Dtype type);

}  // namespace nixie::cpu
