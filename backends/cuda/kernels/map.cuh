// Elementwise kernels: each thread takes kUnroll groups of neighbouring positions.
//
// Body is generated. Body::load(group) reads what a group needs; Body::run(group, loads) computes and stores it.
#pragma once

#include "math.cuh"

template <class Body>
__device__ void map(const Body& body) {
  using Index = typename Body::Index;
  constexpr int unroll = Body::kUnroll, threads = Body::kThreads;
  const Index first = static_cast<Index>(blockIdx.x) * (threads * unroll) + threadIdx.x;
  // All loads before the first use: several are in flight for each thread.
  typename Body::Loads loads[unroll];
#pragma unroll
  for (int i = 0; i < unroll; ++i)
    if (first + i * threads < Body::kGroups) body.load(first + i * threads, loads[i]);
#pragma unroll
  for (int i = 0; i < unroll; ++i)
    if (first + i * threads < Body::kGroups) body.run(first + i * threads, loads[i]);
}
