// Image: decoding of JPEG and PNG from memory, and the resize and crop that make samples of one size.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace nixie {

/// Interleaved 8-bit RGB.
struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

/// Decodes a JPEG or PNG, told apart by their first bytes. Grey becomes RGB, CMYK is taken as Adobe writes it
/// (inverted), 16 bits become 8, transparent pixels lie on white, EXIF rotation is ignored. A JPEG may be decoded at
/// 1/2, 1/4 or 1/8 of its size as long as its short side keeps `least_side` pixels. Throws Fault::data naming `file`
/// for anything truncated or damaged, and for sizes above 16 Mi pixels that the bytes cannot fill (64 Mi at most).
Image decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side);

/// Which part of an image becomes a sample.
struct Window {
  std::int64_t short_side = 256;   ///< the image is first scaled to this
  std::int64_t crop = 224;         ///< side of the square that is cut out of it
  std::int64_t left = 0, top = 0;  ///< corner of the square in the scaled image
  bool mirrored = false;
};

/// The image's size after its short side is scaled: {width, height}.
std::array<std::int64_t, 2> scaled_size(const Image& image, std::int64_t short_side);

/// Scales with a triangle filter as wide as the reduction (no aliasing) and cuts the window out: planar R, G, B of
/// crop x crop in [0, 255]. Only the pixels of the window are computed.
std::vector<float> cut_window(const Image& image, const Window& window);

}  // namespace nixie
