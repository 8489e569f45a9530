// Image: decoding of JPEG, PNG and WebP from memory.
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

/// The largest image file that is read, and the `least_side` that forbids a reduced size.
constexpr std::uint64_t kMaxImageFile = 1 << 30;
constexpr std::int64_t kFullSize = std::int64_t{1} << 40;

/// How a picture is decoded.
struct Decoding {
  /// A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size as long as its short side keeps so many pixels.
  std::int64_t least_side = kFullSize;
  bool upright = true;      ///< turned as its EXIF orientation says
  double megapixels = 256;  ///< the largest that is decoded, in millions of pixels
};

/// Decodes a JPEG, PNG or WebP, distinguished by their first bytes. Values are those that the file stores: a gamma or a
/// colour profile changes none. Grey becomes RGB, CMYK is read as Adobe writes it (inverted), 16 bits become 8,
/// transparency is blended with white in linear light. Throws Fault::data naming `file` for truncated and damaged
/// files, animations, and those with more than `megapixels`; Fault::memory for those that would take more than half of
/// the free memory.
Image decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file,
                   const Decoding& decoding = {});
/// The same into an image whose memory is reused: fresh pages cost a fifth of the decoding time.
void decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding,
                  Image& image);

/// The class of each pixel of a picture, row by row.
struct Mask {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> classes = {};
};

/// Decodes a PNG of grey levels or of a palette, of 8 bits at most: what is stored, level or palette index, is the
/// class. Throws as decode_image does.
Mask decode_mask(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding = {});

/// Width and height from the file's header, those of the picture turned upright if `upright`. Throws Fault::data naming
/// `file` for a damaged header.
std::array<std::int64_t, 2> image_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file,
                                       bool upright = true);

/// Whether the file has an EXIF orientation other than upright.
bool is_turned(std::span<const std::uint8_t> bytes);

}  // namespace nixie
