// Selects the convolutions to compute by Winograd and their tiling, by estimates of Winograd's and the direct time.
#pragma once

#include <optional>

#include "nixie/backends/cuda/families/conv/conv_problem.h"
#include "nixie/backends/cuda/rewrite/winograd/winograd_tiles.h"

namespace nixie::cuda {

/// The problem of an f32 convolution by multiply-adds only (Math::ieee) with a square filter and no dilation.
std::optional<ConvProblem> multiply_add_conv(const Plan& plan, const Kernel& kernel);
/// The problem of a 16-bit 3x3 convolution without dilation that a Hopper kernel could also compute.
std::optional<ConvProblem> half_conv(const Plan& plan, const Kernel& kernel);
/// True for stride-1 3x3 or 5x5.
bool can_be_tiled(const ConvProblem& conv);

/// A convolution in Winograd tiles: windows are read from `from`, tiles written to `to`: x and y, or dy and dx.
struct TiledLayer {
  TiledLayer(const ConvProblem& conv, int tile);
  ConvRole role;
  Dtype dtype;  ///< of images and filters, and of their transforms
  std::int64_t images, from_channels, to_channels;
  std::array<std::int64_t, 2> pad;
  std::int64_t taps, tile;                                 ///< the filter's taps and a tile's results, along each axis
  std::int64_t rows, columns;                              ///< of tiles in an image
  LineMatrices line;                                       ///< the transforms for tiles and filter
  std::int64_t tiles() const { return rows * columns; }    ///< per image
  std::int64_t window() const { return taps + tile - 1; }  ///< along each axis
  std::int64_t lines() const { return std::ssize(line.images); }
  std::int64_t elements() const { return lines() * lines(); }  ///< of a transformed window
};

/// The fastest Winograd tiling, if it beats direct convolution, or, if given, `most` seconds.
std::optional<TiledLayer> fastest_tiles(const ConvProblem& conv, const Chip& chip, std::optional<double> most = {});
/// The estimated time of the direct convolution in seconds.
double time_in_place(const ConvProblem& conv, const Chip& chip);

}  // namespace nixie::cuda
