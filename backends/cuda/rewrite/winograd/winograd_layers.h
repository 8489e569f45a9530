// Selects the convolutions to compute by Winograd, by estimates of its time and the direct time.
#pragma once

#include <optional>

#include "nixie/backends/cuda/families/conv/conv_problem.h"

namespace nixie::cuda {

/// The problem of a 16-bit 3x3 convolution with stride 1 and no dilation that a Hopper kernel could also compute.
std::optional<ConvProblem> half_conv(const Plan& plan, const Kernel& kernel);
/// A convolution in Winograd tiles of 2x2: windows are read from `from`, tiles written to `to`: x and y, or dy and dx.
struct TiledLayer {
  explicit TiledLayer(const ConvProblem& conv);
  ConvRole role;
  Dtype dtype;  ///< of images and filters, and of their transforms
  std::int64_t images, from_channels, to_channels;
  std::array<std::int64_t, 2> pad;
  std::int64_t rows, columns;                            ///< of tiles in an image
  std::int64_t tiles() const { return rows * columns; }  ///< per image
};
constexpr std::int64_t kTaps = 3, kTile = 2,
                       kWindow = 4;                    ///< along each axis: a filter's, a tile's and a window's size
constexpr std::int64_t kElements = kWindow * kWindow;  ///< of a transformed window

/// Whether tiles take less time than the direct convolution, by estimate.
bool tiles_pay(const ConvProblem& conv, const Chip& chip);

}  // namespace nixie::cuda
