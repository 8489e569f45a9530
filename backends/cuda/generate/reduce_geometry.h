// How the threads of a block and the blocks of a launch share a reduction.
#pragma once

#include <cstdint>

namespace nixie::cuda {

struct Geometry {
  int kept_threads = 1, reduced_threads = 256;
  bool kept_first = false;  ///< neighbouring threads take neighbouring kept positions
  std::int64_t tiles = 1;
  int splits = 1;  ///< blocks that share a tile
  int threads() const { return kept_threads * reduced_threads; }
};

/// `kept`, `reduced`: groups of positions; `bytes`: what the lanes of a thread accumulate; `threads`: of a block, at
/// most.
Geometry geometry(std::int64_t kept, std::int64_t reduced, bool kept_first, int lanes, int bytes, int threads);

/// Reductions to one value, in few shapes for all sizes: a thread has up to 16 steps as far as 64 blocks allow that.
Geometry to_one_value(std::int64_t reduced);

/// Shared memory of a block, at most, in which its threads' accumulators and other blocks' parts are merged.
/// `bytes_of_lane`: what one lane of a thread accumulates.
std::int64_t merging_bytes(const Geometry& g, int bytes, int bytes_of_lane);

}  // namespace nixie::cuda
