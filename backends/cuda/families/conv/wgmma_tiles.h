// Tiles of the tensor-core convolutions of sm_90a: the candidates for a layer, and their estimated times. The fastest
// by estimate runs, unless a line of tune/*.tsv names another for this chip.
#pragma once

#include <string>
#include <vector>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/kernels/conv/wgrad/conv_wgrad_schedule.h"

namespace nixie::cuda {

/// The part of the result that a block computes at a time, and how.
struct Tile {
  int consumers = 0;          ///< warpgroups that multiply
  int mma_m = 0, n = 0;       ///< each multiplies mma_m times 64 rows by n columns
  bool in_turn = false;       ///< each has its own tiles: one's epilogue overlaps with another's products
  bool resident = false;      ///< conv_fprop: blocks stay in a column of tiles and keep its filters in shared memory
  bool paired = false;        ///< conv_fprop: clusters of two blocks share the filters of two tiles
  int splits = 1;             ///< blocks that share the terms of a tile; conv_wgrad: clusters of these
  int stages = 0;             ///< in shared memory at a time
  std::int64_t products = 0;  ///< conv_fprop: clocks of one tile's products, estimated
  std::int64_t clocks = 0;    ///< of the whole kernel, estimated
  std::int64_t price = 0;     ///< clocks by which forms of the layer are compared
  int sharing() const { return in_turn ? 1 : consumers; }  ///< consumers that share a tile
  int rows() const { return 64 * sharing() * mma_m; }
  int together() const { return paired ? 2 : 1; }  ///< blocks that take neighbouring tiles
  /// Rows by columns: "256x128", "64x64 by 3". No two tiles of a kernel share a name.
  std::string name() const {
    return fmt::format("{}x{}{}{}{}", rows(), n, in_turn ? " in turn" : "", paired ? " in pairs" : "",
                       splits > 1 ? fmt::format(" by {}", splits) : "");
  }
};

/// The convolution that conv_fprop computes: a forward pass, or
/// an input gradient as one. Channels and filters of one group.
struct ForwardLayer {
  bool transposed = false;  ///< an input gradient
  int channels = 0, filters = 0, groups = 1, p = 0, q = 0;
  std::array<int, 2> pad{};
  int slice = 0;        ///< channels in one TMA box
  int stage_terms = 0;  ///< terms of the reduction in each stage: whole slices, at most 64
  std::int64_t pixels = 0, stages = 0;
  /// Rows of filters that a stage of a tile reads.
  std::int64_t filter_rows(const Tile& tile) const { return transposed ? (tile.n + 63) / 64 * 64 : tile.n; }
  std::int64_t columns(const Tile& tile) const { return groups * ((filters - 1) / tile.n + 1); }
  /// Whole groups of tiles that blocks take together.
  std::int64_t tiles(const Tile& tile) const {
    return ((pixels - 1) / (tile.together() * tile.rows()) + 1) * tile.together() * columns(tile);
  }
};
ForwardLayer forward_layer(const ConvProblem& conv);
/// The clocks that storing a tile's results takes its consumers, and those of the busiest block with such an epilogue.
std::int64_t forward_epilogue_clocks(const Tile& tile);
std::int64_t forward_clocks(const ForwardLayer& layer, const Tile& tile, std::int64_t epilogue, const Chip& chip);
/// The number of blocks that compute a layer, and the bytes of filters that each keeps in shared memory.
std::int64_t forward_blocks(const ForwardLayer& layer, const Tile& tile, const Chip& chip);
std::int64_t resident_bytes(const ForwardLayer& layer, const Tile& tile);

/// The rows of tiles of a filter gradient, of all groups together.
std::int64_t gradient_rows(const ConvProblem& conv, const Tile& tile);
/// How a filter gradient's tiles are distributed over the chip's blocks.
WgradSchedule gradient_schedule(const ConvProblem& conv, const Tile& tile, const Chip& chip, int epilogue_bytes);
/// The elements of a filter, with its slices padded.
std::int64_t gradient_columns(const ConvProblem& conv);
/// The channels in one TMA box: in a forward pass, and in a filter gradient.
int forward_slice(const ConvProblem& conv);
int gradient_slice(const ConvProblem& conv);
/// The number of 16-bit planes of an operand.
int planes_of(int products);

/// The tiles with which conv_fprop_sm90 or conv_wgrad_sm90 can compute the convolution, fastest first. In
/// conv_fprop all tiles that are not split give identical bits; in conv_wgrad each tile sums in its own
/// order. `epilogue_bytes`: bytes that the epilogue reads and writes for each element of the gradient.
std::vector<Tile> forward_tiles(const ConvProblem& conv, const Chip& chip, bool may_split = true);
std::vector<Tile> gradient_tiles(const ConvProblem& conv, const Chip& chip, int epilogue_bytes = 4);
/// The work of a tile's kernel; and that of a forward pass or a filter gradient by patches that are estimated at so
/// many clocks.
Work tile_work(const ConvProblem& conv, const Tile& tile);
Work forward_work(double clocks);
Work gradient_work(double clocks);
/// The part of the chip's SMs that it runs on.
double tensor_core_share(const ConvProblem& conv, const Chip& chip);
/// Whether there are gradient tiles: not if the gradient has more tiles than its schedule can number.
bool has_gradient_tiles(const ConvProblem& conv);

/// Maximum dynamic shared memory per block, less room for static arrays and alignment.
std::int64_t dynamic_shared_bytes(const Chip& chip);

/// Tiles of any kind as the algorithms of a kernel.
template <class AnyTile>
std::vector<Algorithm> algorithms_of(const std::vector<AnyTile>& tiles) {
  std::vector<Algorithm> algorithms;
  for (const AnyTile& tile : tiles) algorithms.push_back({tile.name(), static_cast<double>(tile.clocks)});
  return algorithms;
}

}  // namespace nixie::cuda
