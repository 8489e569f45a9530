// Reductions of all that a kernel computes: threads accumulate while they store, and each warp stores one partial
// result (a part), which the program that needs the reductions reads.
//
// Body   has struct Accumulators, to one of which run() adds, and leave(const Accumulators&, Index part).
// Order  sums run over a thread's calls of run(), then over lanes: the same in every run.
//
// WARP_PARTS: the number of parts, if the kernel leaves any: at least that of its warps that run Body. A kernel calls
// run(..., AND_PARTS(parts)) and, with whole warps, parts.leave() at its end.
#pragma once

#ifdef WARP_PARTS
#include "accumulators.cuh"
#define AND_PARTS(parts) , (parts).of
#else
#define AND_PARTS(parts)
#endif

struct WarpParts {
#ifdef WARP_PARTS
  Body::Accumulators of[1];

  // `warp`: which of a block's `warps`. Parts that no warp has are stored empty.
  __device__ __forceinline__ void leave(const Body& body, int warp, int warps) const {
    Body::Accumulators all = of[0];
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) all.merge(shuffled(all, offset));
    if (threadIdx.x % 32 != 0) return;
    const int part = blockIdx.x * warps + warp, step = gridDim.x * warps;
    body.leave(all, part);
    for (int empty = part + step; empty < WARP_PARTS; empty += step) body.leave(Body::Accumulators(), empty);
  }
#else
  __device__ __forceinline__ void leave(const Body&, int, int) const {}
#endif
};
