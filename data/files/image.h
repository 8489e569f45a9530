// Image: decoding of JPEG and PNG from memory.
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

/// The largest image file that is read, and the `least_side` of decode_image that forbids a reduced size.
constexpr std::uint64_t kMaxImageFile = 256 << 20;
constexpr std::int64_t kFullSize = std::int64_t{1} << 40;

/// Decodes a JPEG or PNG, distinguished by their first bytes. Grey becomes RGB, CMYK is read as Adobe writes it
/// (inverted), 16 bits become 8, transparency is blended with white, EXIF rotation is ignored. A JPEG may be decoded at
/// 1/2, 1/4 or 1/8 of its size as long as its short side keeps `least_side` pixels. Throws Fault::data naming `file`
/// for truncated or damaged files, and for sizes above 16 Mi pixels that the bytes cannot fill (64 Mi at most).
Image decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side);
/// The same into an image whose memory is reused: fresh pages cost a fifth of the decoding time.
void decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side,
                  Image& image);

/// The class of each pixel of a picture, row by row.
struct Mask {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> classes = {};
};

/// Decodes a PNG of grey levels or of a palette, of 8 bits at most: what is stored, level or palette index, is the
/// class. Throws Fault::data naming `file` as decode_image does.
Mask decode_mask(std::span<const std::uint8_t> bytes, const std::filesystem::path& file);

/// Width and height, from the file's header. Throws Fault::data as decode_image does.
std::array<std::int64_t, 2> image_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file);

}  // namespace nixie
