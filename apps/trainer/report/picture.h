// PagePicture: small images for a page: samples and masks scaled down, and weights, as PNG in a data URI.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nixie/data/dataset.h"

namespace nixie {

/// Bytes, interleaved: [height, width, channels], of 1 or 3 channels.
struct PagePicture {
  std::int64_t channels = 1, height = 0, width = 0;
  std::vector<std::uint8_t> bytes = {};

  std::uint8_t& at(std::int64_t y, std::int64_t x, std::int64_t c) {
    return bytes[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
};

/// Numbers [C, H, W], stretched to 0 to 255, the longer side at most `side`; of other than 3 channels the first.
PagePicture picture_of(std::span<const float> numbers, const Shape& shape, std::int64_t side);
/// The classes of the pixels [H, W] in colours, class 0 dark, the longer side at most `side`.
PagePicture picture_of(std::span<const std::int32_t> classes, const Shape& shape, std::int64_t side);

/// A sample as it is loaded for the key, by default as evaluation sees it, its longer side at most `side`. Samples that
/// are no bytes are stretched to 0 to 255; of other than 3 channels the first is shown.
PagePicture picture_of(const Dataset& dataset, std::int64_t index, std::int64_t side, const AugmentKey& key = {});
/// The picture of a sample, with the classes of its pixels [H, W] over it but for class 0.
PagePicture overlaid(const PagePicture& sample, std::span<const std::int32_t> classes, const Shape& shape);

/// The first `count` of [K, C, R, S] numbers, each stretched about 0, which is grey. C is 1 or 3.
std::vector<PagePicture> weight_pictures(const std::vector<float>& values, const Shape& shape, std::int64_t count);

/// The bytes of a PNG file.
std::string png_of(const PagePicture& picture);
/// `data:image/png;base64,...`
std::string data_uri(const PagePicture& picture);
/// RFC 4648.
std::string base64(const std::string& bytes);

}  // namespace nixie
