// The layers of `benchmark sweep`: convolutions drawn from a seed, or layers and products named in a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nixie/core/graph/tensor.h"

namespace nixie::benchmark {

/// A layer over signals, images or volumes, in a role.
struct SweepLayer {
  using Sizes = std::vector<std::int64_t>;  ///< one for each spatial axis
  std::int64_t batch = 1, channels = 1, out = 1, groups = 1;
  Sizes image = {}, window = {}, stride = {}, pad = {}, dilation = {};
  ConvRole role = ConvRole::output;

  /// The size of the convolution's result; zeros where no window fits.
  Sizes result() const;
  /// Twice the multiplications.
  double flop() const;
  /// Elements of both operands and of the result.
  double elements() const;
  /// `depthwise`, `grouped` or `dense`.
  std::string kind() const;
  /// `32x64x56x57 to 128, window 3x5, stride 2, pad 1x2, dilation 1, groups 4`
  std::string text() const;
  /// The convolution in its role, on placeholder values.
  Tensor node() const;
};

/// The limits of drawn layers.
struct SweepLimits {
  double least_flop = 1e7, most_flop = 3e10, most_elements = 3e7;
};

/// Sizes are log-uniform: batches to 256, images to 256 on a side, channels to 1024 (half of them multiples of 8),
/// windows to 15 on a side (a third not square), strides to 4, dilations to 3. A fifth is depthwise, a fifth has groups
/// of 2 to 64 channels. The same seed gives the same layers.
std::vector<SweepLayer> draw_sweep(int count, std::uint64_t seed, const SweepLimits& limits);

/// A contraction, the net that it is from, and how often it occurs there.
struct ListedLayer {
  std::string source = {};
  std::int64_t count = 1;
  std::string role = {};   ///< `output`, `input_grad`, `filter_grad` or `product`
  std::string layer = {};  ///< as in the file
  std::string kind = {};   ///< `1x1`, `window`, `depthwise`, `grouped`, `linear` or `product`
  Tensor node;
};

/// Lines of four fields, SOURCE COUNT ROLE LAYER, where `#` begins a comment. The role `all` is three rows. LAYER is
/// `32x64x56x56 to 128, window 3x3, stride 2, pad 1, dilation 1, groups 1` (of signals and volumes, too; what is left
/// out is 1, pad 0), `512x768 to 3072` (a linear layer), or, under the role `product`, `[8x]512x768 by [8x]768x3072`.
/// Throws Fault::usage with the line for anything else, Fault::storage for a file that cannot be read.
std::vector<ListedLayer> read_layer_list(const std::filesystem::path& file);

}  // namespace nixie::benchmark
