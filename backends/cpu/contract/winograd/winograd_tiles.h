// Shared by the Winograd convolutions: the positions of tiles of 2x2 results, and the transform of their windows.
#pragma once

#include "nixie/backends/cpu/contract/conv/conv.h"

namespace nixie::cpu {

inline constexpr int kWinogradWindow = 4, kWinogradPoints = kWinogradWindow * kWinogradWindow;

/// Lines of tiles, image after image, in blocks that stay in the second-level cache.
struct WinogradTiling {
  /// Neighbouring lines of one image, and the lane of their first tile in a block.
  struct Segment {
    std::int64_t image, line, lines, lane;
  };
  /// Tiles of `images` planes of this size.
  WinogradTiling(std::int64_t images, const Sizes& result);
  /// Lines [first, last) of the batch.
  std::vector<Segment> segments(std::int64_t first, std::int64_t last) const;
  std::vector<Segment> segments_of(std::int64_t block) const;
  std::int64_t most_tiles() const { return ceil_div(all_lines, blocks) * across; }
  /// Lanes from channel to channel: room to write over the end of a line, and an odd number of vectors, so that
  /// channels do not fall on the same lines of a cache.
  std::int64_t pitch() const;

  std::int64_t lines, across;      ///< of an image; tiles of a line
  std::int64_t all_lines, blocks;  ///< of the batch
};

/// Windows of 3x3 with stride 1 over images.
struct WinogradWindows {
  ImageView<float> source;
  Sizes size, pad;  ///< pad may be negative
  const WinogradTiling& tiling;

  /// to[point * point_step + (channel - first) * pitch + lane] for channels [first, last) from image 0 of `source` on.
  void transform(const std::vector<WinogradTiling::Segment>& segments, std::int64_t first, std::int64_t last, float* to,
                 std::int64_t point_step) const;
};

/// Whether tiles take less time than plain sums: `tile_cost` in multiply-adds for each tile beside its products.
bool winograd_is_faster(const ConvShape& shape, const WinogradTiling& tiling, const Sizes& result, double waste,
                        double tile_cost);
/// Whether Winograd's tiles of 2x2 compute this layer: 3x3, stride 1, two axes; never where NIXIE_WINOGRAD=0.
bool winograd_fits(const ConvShape& shape);

}  // namespace nixie::cpu
