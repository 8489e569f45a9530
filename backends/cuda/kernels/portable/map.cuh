// Elementwise kernels: each thread takes one group of neighbouring positions.
//
// Body is generated. Body::load(group) reads what a group needs; Body::run(group, loads) computes and stores it. One
// piece of 16 bytes for each thread and as many threads as there are pieces: on an H200 that reaches what a copy does,
// 3 to 5 % more than several pieces a thread or blocks that stay.
#pragma once

#include "math.cuh"

template <class Body>
__device__ void map(const Body& body, u32 block) {
  using Index = typename Body::Index;
  const Index group = static_cast<Index>(block) * Body::kThreads + threadIdx.x;
  if (group >= body.kGroups) return;
  typename Body::Loads loads;
  body.load(group, loads);
  body.run(group, loads);
}
