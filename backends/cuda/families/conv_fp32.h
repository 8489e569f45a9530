// Convolutions of floats on Hopper by multiply-adds (conv_ffma_sm90.cuh): which they are, and their programs.
#pragma once

#include "nixie/backends/cuda/families/hopper_conv.h"

namespace nixie::cuda {

/// What a block computes at a time: 512 / warps_n rows by warps_n * 4 * thread_n columns.
struct FloatTile {
  int warps_n = 0, thread_n = 0;
  int stages = 0;           ///< that shared memory holds at once
  std::int64_t clocks = 0;  ///< estimated, up to a factor that all tiles of a kernel share
  int rows() const { return 512 / warps_n; }
  int columns() const { return warps_n * 4 * thread_n; }
  std::string name() const { return fmt::format("{}x{}", rows(), columns()); }
};

/// The tiles that can compute the convolution, the least clocks first; no two share a name.
std::vector<FloatTile> float_tiles(const HopperConv& conv);

/// Whether sizes suit conv_ffma_sm90.
bool fits_float_conv(const HopperConv& conv);
/// Whether conv_ffma_sm90 reads an operand as it lies: channels side by side, all else in steps of 16 bytes; of what is
/// not `images` (x, or dy of an input gradient), taps of filters and pixels of dy in even steps.
bool reads_floats(const HopperConv& conv, const Operand& operand, bool images);
/// The convolution of a kernel whose operands are f32 and not rounded to tf32, if its sizes fit; operands may lie in
/// memory as they like.
std::optional<HopperConv> float_conv_sizes(const Plan& plan, const Kernel& kernel);
/// The same, if the kernel can run as it is, reading its operands so.
std::optional<HopperConv> as_float_conv(const Plan& plan, const Kernel& kernel);

/// `way`: the name of a tile; as in generate.
KernelCode generate_float_conv(const Plan& plan, const Kernel& kernel, const HopperConv& conv,
                               const std::string& way = {});

}  // namespace nixie::cuda
