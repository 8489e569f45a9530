// Elementwise kernels: each thread takes kUnroll groups of kLanes neighbouring positions at a time.
//
// Body is generated. Body::load(group) reads what a group needs; Body::run(group, loads) computes and stores it.
#pragma once

#include "math.cuh"

template <class Body>
__device__ void map(const Body& body) {
  using Index = typename Body::Index;
  constexpr int unroll = Body::kUnroll, threads = Body::kThreads;
  constexpr Index groups = Body::kGroups;
  for (Index first = static_cast<Index>(blockIdx.x) * (threads * unroll) + threadIdx.x; first < groups;
       first += static_cast<Index>(gridDim.x) * (threads * unroll)) {
    // All loads before the first use: several are in flight for each thread.
    typename Body::Loads loads[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (first + i * threads < groups) body.load(first + i * threads, loads[i]);
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (first + i * threads < groups) body.run(first + i * threads, loads[i]);
  }
}
