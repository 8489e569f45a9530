// Layers and products named in a file, for `benchmark sweep --list`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nixie/core/graph/tensor.h"

namespace nixie::benchmark {

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
