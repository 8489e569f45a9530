// Tiles of the tensor-core convolutions of sm_90a: which there are for a layer, and how long each should take.
#pragma once

#include <string>
#include <vector>

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// What a block computes at a time.
struct Tile {
  int consumers = 0;        ///< warpgroups that multiply
  int mma_m = 0, n = 0;     ///< of each: products of 64 rows by n columns
  int stages = 0;           ///< of 64 terms that shared memory holds at once
  std::int64_t clocks = 0;  ///< of the whole kernel, estimated
  int rows() const { return 64 * consumers * mma_m; }
  /// Rows by columns: "256x128". No two tiles of a kernel share a name.
  std::string name() const { return fmt::format("{}x{}", rows(), n); }
};

/// What conv_fprop computes: the convolution, or the one that an input gradient is; channels and filters of one group.
struct ForwardLayer {
  bool transposed = false;  ///< an input gradient
  int channels = 0, filters = 0, groups = 1, p = 0, q = 0;
  std::array<int, 2> pad{};
  int slice = 0;  ///< channels that one box of the copy engine holds
  std::int64_t pixels = 0, stages = 0;
};
ForwardLayer forward_layer(const ConvProblem& conv);

/// Rows of tiles of a filter gradient, those of all groups.
std::int64_t gradient_rows(const ConvProblem& conv, const Tile& tile);
/// Channels that one box of the copy engine holds.
int slice_of(std::int64_t channels);
/// 16-bit arrays that hold an operand.
int planes_of(int products);

/// The tiles that conv_fprop_sm90 or conv_wgrad_sm90 can compute the convolution with, the least clocks first. In
/// conv_fprop all tiles give identical bits; in conv_wgrad each tile sums in its own order.
std::vector<Tile> forward_tiles(const ConvProblem& conv, const Chip& chip);
std::vector<Tile> gradient_tiles(const ConvProblem& conv, const Chip& chip);
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
