// Split-K: several blocks share the terms of one tile's sums. Each writes its partial sums to memory, and the last
// block to arrive adds all of them in a fixed order, so the result does not depend on which block is last.
#pragma once
#include "ptx.cuh"

constexpr int greatest_divisor(int number, int most) {
  while (number % most != 0) most--;
  return most;
}

// Called by all threads of a warpgroup; `thread` is 0 to 127, and the warpgroup synchronises at a named barrier.
// `parts` holds the tile's kParts * 128 * kRows * kColumns floats; `arrived` counts the parts written and is zero
// before and after; `is_last` is a word of shared memory used for nothing else. Returns true in the last block, where
// `sum` is now complete.
template <int kParts, int kRows, int kColumns>
NIXIE_DEVICE bool add_parts(float (&sum)[kRows][kColumns], int part, float* parts, u32* arrived, u32& is_last,
                            int thread, int barrier) {
  constexpr int kCount = kRows * kColumns;
  const auto meet = [&] { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); };
  parts += thread;
#pragma unroll
  for (int i = 0; i < kCount; i++) __stcg(parts + (part * kCount + i) * 128, sum[i / kColumns][i % kColumns]);
  __threadfence();
  meet();
  if (thread == 0) {
    is_last = atomicAdd(arrived, 1u) == kParts - 1;
    if (is_last) *arrived = 0;  // ready for the next run
  }
  meet();
  if (!is_last) return false;
  __threadfence();
  constexpr int kAtOnce = greatest_divisor(kCount, 16);  // loads of one part in flight
  constexpr int kTogether = kParts > 2 ? 2 : 1;          // parts in flight; of two, all chunks would be loaded at once
#pragma unroll
  for (int first = 0; first < kCount; first += kAtOnce) {
    float whole[kAtOnce] = {};
#pragma unroll kTogether
    for (int other = 0; other < kParts; other++)
#pragma unroll
      for (int i = 0; i < kAtOnce; i++) whole[i] += __ldcg(parts + (other * kCount + first + i) * 128);
#pragma unroll
    for (int i = 0; i < kAtOnce; i++) sum[(first + i) / kColumns][(first + i) % kColumns] = whole[i];
  }
  return true;
}
