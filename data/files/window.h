// Window: the resize and crop that make samples of one size out of pictures.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "nixie/data/files/image.h"

namespace nixie {

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

/// The window of a mask, each pixel that of the source under its centre; 0 outside.
void cut_mask(const Mask& mask, const Window& window, std::span<std::int32_t> classes);

/// Planar bytes of `channels` (3: as they are, 1: grey by Rec. 601) from cut_window's result.
void round_pixels(const std::vector<float>& rgb, std::int64_t channels, std::span<std::uint8_t> bytes);

}  // namespace nixie
