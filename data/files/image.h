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

/// The largest image file that is read, and the `least_side` of decode_image that forbids a reduced size.
constexpr std::uint64_t kMaxImageFile = 256 << 20;
constexpr std::int64_t kFullSize = std::int64_t{1} << 40;

/// Decodes a JPEG or PNG, told apart by their first bytes. Grey becomes RGB, CMYK is taken as Adobe writes it
/// (inverted), 16 bits become 8, transparent pixels lie on white, EXIF rotation is ignored. A JPEG may be decoded at
/// 1/2, 1/4 or 1/8 of its size as long as its short side keeps `least_side` pixels. Throws Fault::data naming `file`
/// for anything truncated or damaged, and for sizes above 16 Mi pixels that the bytes cannot fill (64 Mi at most).
Image decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side);

/// Width and height, from the file's header. Throws Fault::data as decode_image does.
std::array<std::int64_t, 2> image_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file);

/// A rectangle of pixels.
struct Box {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
};

/// How a sample is cut out of an image: a box of the image is scaled, and a part of the scaled box is the sample.
struct Window {
  Box source;                          ///< of the image
  std::int64_t width = 0, height = 0;  ///< what it is scaled to
  Box part;                            ///< of the scaled source; black where it reaches beyond
  bool mirrored = false;
};

/// The smallest size of the image's proportions that covers width x height, as torchvision's Resize rounds it.
std::array<std::int64_t, 2> covering_size(const Image& image, std::int64_t width, std::int64_t height);

/// The window of an evaluation: the whole image scaled so that its short side is `short_side` (a sample that is no
/// square is covered in proportion), of which the centre is the sample. torchvision's Resize and CenterCrop.
Window centre_window(const Image& image, std::int64_t short_side, std::int64_t width, std::int64_t height);

/// Scales with a triangle filter as wide as the reduction (no aliasing) and cuts the part out: planar R, G, B in
/// [0, 255]. Only the pixels of the part are computed, and only those of the source are read.
std::vector<float> cut_window(const Image& image, const Window& window);

/// The same as bytes of `channels`, as round_pixels makes them. Where nothing is scaled the bytes are copied.
void cut_bytes(const Image& image, const Window& window, std::int64_t channels, std::span<std::uint8_t> bytes);

/// Planar bytes of `channels` (3: as they are, 1: grey by Rec. 601) from cut_window's result.
void round_pixels(const std::vector<float>& rgb, std::int64_t channels, std::span<std::uint8_t> bytes);

}  // namespace nixie
