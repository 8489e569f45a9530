// Filter gradients whose taps share patches of pixels (conv_wgrad_halo_sm90.cuh): the fastest patch and its tiles.
#pragma once

#include <optional>
#include <string>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/kernels/conv/wgrad/conv_wgrad_schedule.h"
#include "nixie/backends/cuda/kernels/conv/wgrad/wgrad_patch.cuh"

namespace nixie::cuda {

/// A patch, and the tile that a block computes from it.
struct PatchTile {
  WgradPatch patch = {};
  int consumers = 0, mma_m = 0;  ///< warpgroups that multiply; each computes 64 * mma_m filters and a run of taps
  int slice = 0;                 ///< channels of a patch
  bool turned = false;           ///< the problem is solved with images and gradients swapped
  int stages = 0;                ///< in shared memory at a time
  double clocks = 0;             ///< of the whole kernel, estimated
  int rows() const { return 64 * consumers / patch.lines * mma_m; }
  int n() const { return patch.run * slice; }  ///< columns of a consumer
  std::int64_t stage_bytes() const;
  std::string name() const { return fmt::format("patches {}x{}", rows(), patch.lines * n()); }
};

/// The same problem with images and gradients swapped: filters become channels, and taps count from the last.
ConvProblem turned(const ConvProblem& conv);

/// The rows of tiles of all groups, the columns of tiles, and the patches of all images, for the problem as the tile
/// solves it.
std::int64_t patch_tile_rows(const ConvProblem& conv, const PatchTile& tile);
std::int64_t patch_tile_columns(const ConvProblem& conv, const PatchTile& tile);
std::int64_t patches_of(const ConvProblem& conv, const WgradPatch& patch);

/// The fastest patch by estimate; none if the program cannot compute the gradient. `may_turn`: operands may be swapped,
/// which rules out a bias gradient.
std::optional<PatchTile> gradient_patch(const ConvProblem& conv, const Chip& chip, int epilogue_bytes = 4,
                                        bool may_turn = true);
WgradSchedule patch_schedule(const ConvProblem& conv, const PatchTile& tile, const Chip& chip);

}  // namespace nixie::cuda
