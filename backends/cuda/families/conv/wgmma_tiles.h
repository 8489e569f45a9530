// Tiles of the tensor-core convolutions of sm_90a: the candidates for a layer, and their estimated times. The fastest
// by estimate runs, unless a line of tune/*.tsv names another for this chip.
#pragma once

#include <string>
#include <vector>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/kernels/conv/wgrad/conv_wgrad_schedule.h"

namespace nixie::cuda {

/// What a block computes at a time.
struct Tile {
  int consumers = 0;        ///< warpgroups that multiply
  int mma_m = 0, n = 0;     ///< of each: products of 64 rows by n columns
  bool in_turn = false;     ///< each has tiles of its own: one's epilogue runs under another's products
  bool resident = false;    ///< conv_fprop: blocks keep to a column of tiles and hold its filters
  int splits = 1;           ///< conv_fprop: blocks that share the terms of a tile
  int stages = 0;           ///< that shared memory holds at once
  std::int64_t clocks = 0;  ///< of the whole kernel, estimated
  int sharing() const { return in_turn ? 1 : consumers; }  ///< consumers that share a tile
  int rows() const { return 64 * sharing() * mma_m; }
  /// Rows by columns: "256x128", "64x64 by 3". No two tiles of a kernel share a name.
  std::string name() const {
    return fmt::format("{}x{}{}{}", rows(), n, in_turn ? " in turn" : "",
                       splits > 1 ? fmt::format(" by {}", splits) : "");
  }
};

/// What conv_fprop computes: the convolution, or the one that an input gradient is; channels and filters of one group.
struct ForwardLayer {
  bool transposed = false;  ///< an input gradient
  int channels = 0, filters = 0, groups = 1, p = 0, q = 0;
  std::array<int, 2> pad{};
  int slice = 0;        ///< channels that one box of the copy engine holds
  int stage_terms = 0;  ///< of the reduction in each stage, whole slices, at most 64
  std::int64_t pixels = 0, stages = 0;
  /// Of filters that a stage of a tile reads.
  std::int64_t filter_rows(const Tile& tile) const { return transposed ? (tile.n + 63) / 64 * 64 : tile.n; }
  std::int64_t columns(const Tile& tile) const { return groups * ((filters - 1) / tile.n + 1); }
  std::int64_t tiles(const Tile& tile) const { return ((pixels - 1) / tile.rows() + 1) * columns(tile); }
};
ForwardLayer forward_layer(const ConvProblem& conv);
/// What an SM has as its share of memory.
constexpr int kMemoryBytesPerClock = 16;
/// Clocks of storing the results of a tile.
std::int64_t forward_epilogue_clocks(const Tile& tile);
/// The blocks that compute it, and the bytes of filters that each holds.
std::int64_t forward_blocks(const ForwardLayer& layer, const Tile& tile, const Chip& chip);
std::int64_t resident_bytes(const ForwardLayer& layer, const Tile& tile);

/// Rows of tiles of a filter gradient, those of all groups.
std::int64_t gradient_rows(const ConvProblem& conv, const Tile& tile);
/// How a filter gradient's tiles are shared out over the chip.
WgradSchedule gradient_schedule(const ConvProblem& conv, const Tile& tile, const Chip& chip, int epilogue_bytes);
/// Elements of a filter, with those that fill up its slices.
std::int64_t gradient_columns(const ConvProblem& conv);
/// Channels that one box of the copy engine holds: of a forward pass, for tiles of so many filters, and of a filter
/// gradient.
int slice_of(std::int64_t channels, std::int64_t filters);
int gradient_slice(const ConvProblem& conv);
/// 16-bit arrays that hold an operand.
int planes_of(int products);

/// The tiles that conv_fprop_sm90 or conv_wgrad_sm90 can compute the convolution with, the least clocks first. In
/// conv_fprop all tiles that are not split give identical bits; in conv_wgrad each tile sums in its own order.
/// `epilogue_bytes`: of memory that the epilogue reads and writes for each element of the gradient.
std::vector<Tile> forward_tiles(const ConvProblem& conv, const Chip& chip, bool may_split = true);
std::vector<Tile> gradient_tiles(const ConvProblem& conv, const Chip& chip, int epilogue_bytes = 4);
/// Whether there are any of the latter: not for gradients of more tiles than their schedule can name.
bool has_gradient_tiles(const ConvProblem& conv);

/// Maximum dynamic shared memory per block, less room for static arrays and alignment.
std::int64_t dynamic_shared_bytes(const Chip& chip);

/// Tiles, of whichever kind, as algorithms for a kernel.
template <class AnyTile>
std::vector<Algorithm> algorithms_of(const std::vector<AnyTile>& tiles) {
  std::vector<Algorithm> algorithms;
  for (const AnyTile& tile : tiles) algorithms.push_back({tile.name(), static_cast<double>(tile.clocks)});
  return algorithms;
}

}  // namespace nixie::cuda
