// Parts: partial results of reductions of what a kernel computes. Threads accumulate while they store, a block leaves
// one result for each of its columns, and the program that needs the reductions merges these (reduce.cuh).
//
// PARTS    the number of parts, if a kernel leaves any; those that no block has are empty. Body then has struct
//          Accumulators, to which run() adds, and char* left: Accumulators [PARTS][PARTS_COLUMNS].
// Channels PARTS_OF_CHANNELS = 1: columns are channels. A block computes tiles of one column of these only, so that its
//          part covers all its pixels. Body has struct Fixed, the numbers of channels that every pixel needs, and
//          run() takes, at the end, an accumulator for each lane and the number of pixels in them, this one included.
// All      PARTS_OF_CHANNELS = 0: all is one column, for which run() takes one accumulator: AND_PARTS(parts).
// Order    sums run over a thread's pixels, then lanes, warps and parts: the same in every run.
#pragma once

#if defined(PARTS) && !PARTS_OF_CHANNELS
#define AND_PARTS(parts) , (parts).of[0]
#else
#define AND_PARTS(parts)
#endif

#ifdef PARTS
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

// What a thread has accumulated: for kChunks * 8 channels, or for all.
template <int kChunks>
struct BlockParts {
  static constexpr int kLanes = PARTS_OF_CHANNELS ? 8 : 1;  // that have different columns; and columns of each
  Body::Accumulators of[PARTS_OF_CHANNELS ? kChunks : 1][kLanes];
  int seen = 0;  // pixels

  // Merges the lanes of a warp that have the same columns and writes the results to the warp's `row` in shared memory,
  // of 64 * kChunks accumulators, or of one.
  __device__ __forceinline__ void write(Body::Accumulators* row) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int chunk = 0; chunk < static_cast<int>(sizeof(of) / sizeof(of[0])); chunk++)
#pragma unroll
      for (int i = 0; i < kLanes; i++) {
        Body::Accumulators mine = of[chunk][i];
        if (PARTS_OF_CHANNELS) mine.saw(seen);
#pragma unroll
        for (int offset = kLanes; offset < 32; offset *= 2) {
          const Body::Accumulators other = shuffled(mine, offset);
          const bool upper = lane & offset;
          Body::Accumulators both = chosen(upper, other, mine);
          both.merge(chosen(upper, mine, other));
          mine = both;
        }
        if (lane < kLanes) row[chunk * 64 + lane * 8 + i] = mine;
      }
  }
};

// Merges the `rows` rows that warps wrote, `pitch` bytes apart, and stores the result as part `part` of columns
// [first_column, first_column + columns). Parts `part` + `step`, `part` + 2 `step`, ... have no block and are stored
// empty. Called by each `thread` of `threads`.
__device__ __forceinline__ void leave_parts(const Body& body, const Body::Accumulators* first, int pitch, int rows,
                                            int first_column, int columns, int part, int step, int thread,
                                            int threads) {
  Body::Accumulators* left = reinterpret_cast<Body::Accumulators*>(body.left);
  for (int column = thread; column < columns && first_column + column < PARTS_COLUMNS; column += threads) {
    Body::Accumulators all = first[column];
    for (int row = 1; row < rows; row++)
      all.merge(
          *reinterpret_cast<const Body::Accumulators*>(reinterpret_cast<const char*>(first + column) + row * pitch));
    left[part * PARTS_COLUMNS + first_column + column] = all;
    for (int empty = part + step; empty < PARTS; empty += step)
      left[empty * PARTS_COLUMNS + first_column + column] = Body::Accumulators();
  }
}
#else
template <int kChunks>
struct BlockParts {};
#endif
