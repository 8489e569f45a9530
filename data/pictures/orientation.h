// Orientation: how the camera was held, from a picture's EXIF block, and turning the pixels upright.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nixie {

/// The EXIF orientation of a JPEG, PNG or WebP file, from 1 (upright) to 8; 1 where it has none that is valid. Source:
/// CIPA DC-008 (Exif 2.32), 4.6.4.
int orientation_of(std::span<const std::uint8_t> file);

/// Whether width and height change places.
constexpr bool swaps_sides(int orientation) { return orientation > 4; }

/// The pixels of `channels` bytes, upright: `width` x `height` are the sizes before.
std::vector<std::uint8_t> turned(const std::vector<std::uint8_t>& pixels, std::int64_t width, std::int64_t height,
                                 std::int64_t channels, int orientation);

}  // namespace nixie
