// PagePicture: libpng's simplified interface, and averages over the pixels that become one.
#include "nixie/apps/trainer/report/picture.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "nixie/core/base/error.h"

namespace nixie {
namespace {

/// Numbers from the lowest to the highest as 0 to 255.
std::vector<std::uint8_t> stretched(std::span<const float> numbers) {
  std::vector<std::uint8_t> bytes(numbers.size());
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const float from = *low, scale = *high > *low ? 255 / (*high - *low) : 0;
  std::transform(numbers.begin(), numbers.end(), bytes.begin(),
                 [&](float x) { return static_cast<std::uint8_t>(std::lround((x - from) * scale)); });
  return bytes;
}

/// Planar pixels as bytes.
std::vector<std::uint8_t> planar_bytes(const Dataset& dataset, std::int64_t index, const AugmentKey& key) {
  const auto size = static_cast<std::size_t>(dataset.sample_shape().size());
  std::vector<std::uint8_t> bytes(size);
  if (dataset.bytes()) {
    dataset.bytes()->load_bytes(index, key, bytes);
    return bytes;
  }
  std::vector<float> pixels(size);
  dataset.load(index, key, pixels);
  return stretched(pixels);
}

/// A black picture, as large as one of this size whose longer side is brought down to `side`.
PagePicture black(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t side) {
  const double factor = std::max(1.0, static_cast<double>(std::max(height, width)) / static_cast<double>(side));
  PagePicture picture{.channels = channels,
                      .height = std::max<std::int64_t>(1, std::lround(static_cast<double>(height) / factor)),
                      .width = std::max<std::int64_t>(1, std::lround(static_cast<double>(width) / factor))};
  picture.bytes.resize(static_cast<std::size_t>(picture.channels * picture.height * picture.width));
  return picture;
}

/// Means of the pixels of [C, H, W] that become one.
PagePicture scaled_down(const std::vector<std::uint8_t>& planes, const Shape& shape, std::int64_t side) {
  const std::int64_t height = shape[1], width = shape[2];
  PagePicture picture = black(shape[0] == 3 ? 3 : 1, height, width, side);
  for (std::int64_t c = 0; c < picture.channels; ++c)
    for (std::int64_t y = 0; y < picture.height; ++y)
      for (std::int64_t x = 0; x < picture.width; ++x) {
        const std::int64_t top = y * height / picture.height, bottom = (y + 1) * height / picture.height,
                           left = x * width / picture.width, right = (x + 1) * width / picture.width;
        std::int64_t sum = 0;
        for (std::int64_t v = top; v < bottom; ++v)
          for (std::int64_t u = left; u < right; ++u)
            sum += planes[static_cast<std::size_t>((c * height + v) * width + u)];
        const std::int64_t count = (bottom - top) * (right - left);
        picture.at(y, x, c) = static_cast<std::uint8_t>((sum + count / 2) / count);
      }
  return picture;
}

/// A colour of 8 bits per channel: neighbours in number differ clearly, and class 0, mostly the background, is dark.
std::array<std::uint8_t, 3> colour_of(std::int32_t class_number) {
  if (class_number == 0) return {32, 36, 44};
  const double turn = class_number * 0.6180339887498949, hue = 6 * (turn - std::floor(turn));
  std::array<std::uint8_t, 3> colour{};
  for (int c = 0; c < 3; ++c) {
    const double away = std::abs(std::remainder(hue - 2 * c, 6));  // from red, green and blue
    colour[static_cast<std::size_t>(c)] = static_cast<std::uint8_t>(60 + 180 * std::clamp(2 - away, 0.0, 1.0));
  }
  return colour;
}

/// Sets the channels of each pixel by `mix` from the class that it shows, of [H, W], and that one's colour.
template <class Mix>
void colour_pixels(PagePicture& picture, std::span<const std::int32_t> classes, const Shape& shape, const Mix& mix) {
  for (std::int64_t y = 0; y < picture.height; ++y)
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const std::int64_t row = y * shape[0] / picture.height, column = x * shape[1] / picture.width;
      const std::int32_t label = classes[static_cast<std::size_t>(row * shape[1] + column)];
      const auto colour = colour_of(label);
      for (std::int64_t c = 0; c < 3; ++c)
        picture.at(y, x, c) = static_cast<std::uint8_t>(mix(y, x, c, label, colour[static_cast<std::size_t>(c)]));
    }
}

}  // namespace

PagePicture picture_of(const Dataset& dataset, std::int64_t index, std::int64_t side, const AugmentKey& key) {
  return scaled_down(planar_bytes(dataset, index, key), dataset.sample_shape(), side);
}

PagePicture overlaid(const PagePicture& sample, std::span<const std::int32_t> classes, const Shape& shape) {
  PagePicture picture{.channels = 3, .height = sample.height, .width = sample.width};
  picture.bytes.resize(static_cast<std::size_t>(3 * sample.height * sample.width));
  colour_pixels(picture, classes, shape, [&](auto y, auto x, auto c, std::int32_t label, int colour) {
    const int own =
        sample.bytes[static_cast<std::size_t>((y * sample.width + x) * sample.channels + c % sample.channels)];
    return label == 0 ? own : (own + colour) / 2;
  });
  return picture;
}

PagePicture picture_of(std::span<const float> numbers, const Shape& shape, std::int64_t side) {
  return scaled_down(stretched(numbers), shape, side);
}

PagePicture picture_of(std::span<const std::int32_t> classes, const Shape& shape, std::int64_t side) {
  PagePicture picture = black(3, shape[0], shape[1], side);
  colour_pixels(picture, classes, shape, [](auto, auto, auto, std::int32_t, int colour) { return colour; });
  return picture;
}

std::vector<PagePicture> weight_pictures(const std::vector<float>& values, const Shape& shape, std::int64_t count) {
  const std::int64_t channels = shape[1], height = shape[2], width = shape[3], size = channels * height * width;
  std::vector<PagePicture> pictures;
  for (std::int64_t k = 0; k < std::min(shape[0], count); ++k) {
    const std::span weights(values.data() + k * size, static_cast<std::size_t>(size));
    float most = 1e-30f;
    for (const float weight : weights) most = std::max(most, std::abs(weight));
    PagePicture& picture = pictures.emplace_back(PagePicture{channels, height, width, {}});
    picture.bytes.resize(weights.size());
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x)
          picture.at(y, x, c) = static_cast<std::uint8_t>(
              std::lround(128 + 127 * weights[static_cast<std::size_t>((c * height + y) * width + x)] / most));
  }
  return pictures;
}

std::string base64(const std::string& bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string data_uri(const PagePicture& picture) { return "data:image/png;base64," + base64(png_of(picture)); }

std::string png_of(const PagePicture& picture) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(picture.width);
  png.height = static_cast<png_uint_32>(picture.height);
  png.format = picture.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = 0;
  std::string bytes;
  for (int pass = 0; pass < 2; ++pass) {  // the first asks for the size
    bytes.resize(size);
    const bool is_written = png_image_write_to_memory(&png, size > 0 ? bytes.data() : nullptr, &size, 0,
                                                      picture.bytes.data(), 0, nullptr) != 0;
    if (!is_written)  // what it is given is always right
      fail(Fault::memory, "out of memory: libpng cannot write ", picture.width, " x ", picture.height,
           " pixels: ", png.message);
  }
  return bytes;
}

}  // namespace nixie
