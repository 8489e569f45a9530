// Sums of a tile whose terms several blocks share: each leaves its part in memory, and the last to arrive adds all of
// them in order, so that no result depends on which one that is.
#pragma once
#include "ptx.cuh"

// For a warpgroup, thread `thread` of 128, which meets at a named barrier. `parts` holds its tile's kParts * 128 *
// kRows * kColumns floats; `arrived` counts its parts and is zero before and after; `is_last` is a word of shared
// memory of its own. True where `sum` is whole now.
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
  constexpr int kAtOnce = kCount % 16 == 0 ? 16 : 8;  // loads of a part on their way, and of the next
  constexpr int kTogether = kParts > 2 ? 2 : 1;       // both parts of two would be on their way with all chunks
  static_assert(kCount % kAtOnce == 0);
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
