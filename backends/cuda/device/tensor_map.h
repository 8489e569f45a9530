// TensorMap: a TMA descriptor of a tensor, encoded when its address is known.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nixie/core/base/dtype.h"

namespace nixie::cuda {

/// Axes are listed innermost first. Reading outside the tensor gives zero.
struct TensorMap {
  int slot = 0;
  std::int64_t offset_bytes = 0;
  Dtype dtype = Dtype::f16;                      ///< f16, bf16 or f32
  std::vector<std::uint64_t> sizes = {};         ///< in elements
  std::vector<std::uint64_t> strides = {};       ///< in elements, for every axis but the first; none: packed
  std::vector<std::uint32_t> box = {};           ///< tiled: elements along each axis; im2col: channels, pixels
  int swizzle_bytes = 128;                       ///< 32, 64 or 128; 0: no swizzle
  bool im2col = false;                           ///< for images {C, W, H, N}
  std::array<int, 2> lower{}, upper{};           ///< im2col: corners of the window's range, {w, h}
  std::array<std::uint32_t, 2> stride = {1, 1};  ///< im2col: {w, h}
};

/// A CUtensorMap, which kernels take by value.
struct alignas(64) EncodedMap {
  std::uint64_t words[16];
};

/// Throws Fault::device if the driver refuses the map.
EncodedMap encode(const TensorMap& map, void* address);

}  // namespace nixie::cuda
