// Input gradients of layers with few channels, for conv_rows_sm90.cuh: which they are, and their programs.
#pragma once

#include <optional>

#include "backends/cuda/hopper_conv.h"

namespace nixie::cuda {

/// How conv_rows computes a layer: warpgroups of 64 * mma_m positions, `group` channels at a time.
struct RowsTile {
  int group = 0, consumers = 2, mma_m = 2;
  int units = 1;   ///< eights of channels that pass through shared memory together
  int stages = 0;  ///< of the ring
  std::int64_t shared_bytes = 0;
};

/// The tile, where the layer is an input gradient that conv_rows computes, and faster than conv_fprop.
std::optional<RowsTile> rows_tile(const HopperConv& conv);

KernelCode generate_hopper_rows(const Plan& plan, const Kernel& kernel, const HopperConv& conv, const RowsTile& tile);

}  // namespace nixie::cuda
