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

/// `kept`, `reduced`: numbers of groups of positions; `bytes`: size of a thread's accumulators; `threads`: the most in
/// a block.
Geometry geometry(std::int64_t kept, std::int64_t reduced, bool kept_first, int lanes, int bytes, int threads);

/// The same for reductions to one value, with few different geometries for all sizes: a thread has up to 16 steps,
/// unless that takes more than 64 blocks.
Geometry to_one_value(std::int64_t reduced);

}  // namespace nixie::cuda
