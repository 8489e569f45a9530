// Window: the resize and crop that turn pictures into samples of one size.
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

/// How a sample is cropped from an image: a box of the image is scaled, and a part of the scaled box is the sample.
struct Window {
  Box source;                          ///< of the image
  std::int64_t width = 0, height = 0;  ///< the size that it is scaled to
  Box part;                            ///< of the scaled source; black outside it
  bool mirrored = false;
};

/// The smallest size with the image's aspect ratio that covers width x height, rounded as by torchvision's Resize.
std::array<std::int64_t, 2> covering_size(const Image& image, std::int64_t width, std::int64_t height);

/// Where a crop begins that leaves `room` in all on both sides: half of it, rounded to the even number as torchvision's
/// CenterCrop does.
std::int64_t centred(std::int64_t room);

/// The window of an evaluation: the centre of the whole image scaled so that its short side is `short_side` (in
/// proportion, if the sample is no square). torchvision's Resize and CenterCrop.
Window centre_window(const Image& image, std::int64_t short_side, std::int64_t width, std::int64_t height);

/// Scales with a triangle filter as wide as the reduction (no aliasing) and crops the part: planar R, G, B in
/// [0, 255]. Computes only the pixels of the part and reads only those of the source.
std::vector<float> cut_window(const Image& image, const Window& window);

/// The same as bytes of `channels`, rounded as by round_pixels. Without scaling the bytes are copied.
void cut_bytes(const Image& image, const Window& window, std::int64_t channels, std::span<std::uint8_t> bytes);

/// The window of a mask, each pixel the source's pixel under its centre; 0 outside.
void cut_mask(const Mask& mask, const Window& window, std::span<std::int32_t> classes);

/// Planar bytes of `channels` (3: RGB, 1: grey by Rec. 601) from cut_window's result.
void round_pixels(const std::vector<float>& rgb, std::int64_t channels, std::span<std::uint8_t> bytes);

}  // namespace nixie
