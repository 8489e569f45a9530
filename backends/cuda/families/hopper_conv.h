// Convolutions for Hopper's own kernels: which kernels of a plan are some, and their programs.
#pragma once

#include <array>
#include <optional>

#include "nixie/backends/cuda/generate/nhwc_functor.h"
#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// Of every H100 SXM and H200; others run the same work in more waves.
constexpr int kMultiprocessors = 132;
/// Of shared memory: what a block may have, less what a kernel declares itself and aligning takes.
constexpr int kBlockSharedBytes = 232448 - 2048;

/// A 2-D convolution of 16-bit images, or of floats (float_conv.h), in the words of the layer: x [images, channels,
/// height, width], w [filters, channels, r, s], y [images, filters, p, q].
struct HopperConv {
  ConvRole role = ConvRole::output;
  int images = 0, channels = 0, height = 0, width = 0, filters = 0, r = 0, s = 0, p = 0, q = 0;
  std::array<int, 2> stride{}, pad{}, dilation{};
  Dtype dtype = Dtype::f16;
  /// 3: operands 0 and 1 are the high planes of f32 values, 2 and 3 their low planes (half_planes.cpp).
  int products = 1;
  /// Filter gradient of images whose channels are S * row_channels numbers of a window's row, padded; s is then 1.
  int row_channels = 0, row_s = 0;
  bool bias_grad = false;  ///< filter gradient: the kernel's last store, which no stage writes, takes dy summed over
                           ///< images and pixels
  bool pooled = false;     ///< forward pass: the stages are not run, only bias and ReLU (bias_relu_of); the stores take
                           ///< the output of a 2x2 max pooling after it and the index
};

/// The convolution of a kernel with one group, 2-D, whose filter and result (or their gradients) are 16-bit.
std::optional<HopperConv> conv_sizes(const Plan& plan, const Kernel& kernel);
/// The same whatever the types are.
std::optional<HopperConv> any_conv_sizes(const Plan& plan, const Kernel& kernel);
/// Whether sizes suit conv_fprop_sm90 or conv_wgrad_sm90.
bool fits_hopper(const HopperConv& conv);
/// The convolution of a kernel, if its sizes and types fit conv_fprop_sm90 or conv_wgrad_sm90; its operands may lie in
/// memory as they like, and what its stages do is not looked at.
std::optional<HopperConv> hopper_conv_sizes(const Plan& plan, const Kernel& kernel);
/// The same, if the kernel can run as it is, with channels-last operands. Also a large product of 16-bit matrices with
/// work on its result: a layer of images of one pixel.
std::optional<HopperConv> as_hopper_conv(const Plan& plan, const Kernel& kernel);
/// Whether the kernel's last store is one that no stage writes.
bool has_extra_store(const Kernel& kernel);
/// Whether the kernel stores what its head computes, channels-last in f32 or the type of its operands, and does nothing
/// else. A store that no stage writes may follow.
bool only_stores(const Plan& plan, const Kernel& kernel);
/// Whether strides are those of Shape::channels_last, axes of one element aside, and offsets allow pieces of 16 bytes.
bool is_channels_last(const Shape& shape, const Strides& strides, std::int64_t offset);

/// `way`: the name of a tile (hopper_tiles.h), "rows" for conv_rows_sm90 or "halo" for conv_halo_sm90; as in generate.
KernelCode generate_hopper_conv(const Plan& plan, const Kernel& kernel, const HopperConv& conv,
                                const std::string& way = {});

}  // namespace nixie::cuda
