// Per-channel reductions over the pixels of a convolution's output: threads accumulate while they store, a block
// stores one partial result (a part) for each of its channels, and the program that needs the result merges the parts
// (reduce.cuh).
//
// Body       has struct Accumulators, to which run() adds; struct Fixed, the per-channel numbers of 8 channels that
//            every pixel needs; and char* left: Accumulators [CONV_PARTS][CONV_K].
// Blocks     compute tiles of one column only, so that a part covers all pixels of its block. CONV_PARTS is at least
//            the number of blocks of a column; parts without a block are empty.
// Order      sums run over a thread's pixels, then lanes, warps and parts: the same in every run.
#pragma once
#include "accumulators.cuh"

// Loads in flight. If their size is a whole number of words they are kept as words until they are used: the compiler
// would unpack halves right after the load, which waits for it and takes one register per half.
struct LoadsAhead {
  static constexpr bool kAny = !__is_empty(Body::Loads), kAreWords = kAny && sizeof(Body::Loads) % 4 == 0;
  static constexpr int kWords = kAreWords ? sizeof(Body::Loads) / 4 : 1;
  u32 words[kWords];
  Body::Loads others;

  __device__ __forceinline__ void load(const Body& body, int pixel, int channel) {
    body.load(pixel, channel, others);
    if constexpr (kAreWords)
#pragma unroll
      for (int i = 0; i < kWords; i++) words[i] = reinterpret_cast<const u32*>(&others)[i];
  }
  __device__ __forceinline__ Body::Loads arrived() const {
    Body::Loads loads = others;
    if constexpr (kAreWords)
#pragma unroll
      for (int i = 0; i < kWords; i++) {
        u32 word = words[i];
        asm volatile("" : "+r"(word));
        reinterpret_cast<u32*>(&loads)[i] = word;
      }
    return loads;
  }
};

// What a thread has accumulated for its kChunks * 8 channels.
template <int kChunks>
struct ChannelParts {
  Body::Accumulators of[kChunks][8];
  int seen = 0;  // pixels

  // Merges the lanes of a warp that have the same channels, which are 8 apart, and writes the results to the warp's
  // `row` of 64 * kChunks accumulators in shared memory.
  __device__ __forceinline__ void write(Body::Accumulators* row) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; chunk++)
#pragma unroll
      for (int i = 0; i < 8; i++) {
        Body::Accumulators mine = of[chunk][i];
        mine.saw(seen);
#pragma unroll
        for (int offset = 8; offset < 32; offset *= 2) {
          const Body::Accumulators other = shuffled(mine, offset);
          const bool upper = lane & offset;
          Body::Accumulators both = chosen(upper, other, mine);
          both.merge(chosen(upper, mine, other));
          mine = both;
        }
        if (lane < 8) row[chunk * 64 + lane * 8 + i] = mine;
      }
  }
};

// Merges the `rows` rows that warps wrote, `pitch` bytes apart, and stores the result as part `part` of channels
// [channel, channel + columns). Parts `part` + `step`, `part` + 2 `step`, ... have no block and are stored empty.
// Called by each `thread` of `threads`.
__device__ __forceinline__ void leave_parts(const Body& body, const Body::Accumulators* first, int pitch, int rows,
                                            int channel, int columns, int part, int step, int thread, int threads) {
  Body::Accumulators* left = reinterpret_cast<Body::Accumulators*>(body.left);
  for (int column = thread; column < columns && channel + column < CONV_K; column += threads) {
    Body::Accumulators all = first[column];
    for (int row = 1; row < rows; row++)
      all.merge(
          *reinterpret_cast<const Body::Accumulators*>(reinterpret_cast<const char*>(first + column) + row * pitch));
    left[part * CONV_K + channel + column] = all;
    for (int empty = part + step; empty < CONV_PARTS; empty += step)
      left[empty * CONV_K + channel + column] = Body::Accumulators();
  }
}
