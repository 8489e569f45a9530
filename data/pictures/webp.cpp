// WebP: pixels with transparency are blended with white here, as libpng does it.
#include "nixie/data/pictures/webp.h"

#include <webp/decode.h>

#include <cmath>

#include "nixie/data/pictures/refusal.h"

namespace nixie {
namespace {

const char* text_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return "it ends before its last pixel";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "of a form that libwebp does not read";
    default:
      return "its pixels cannot be decoded";
  }
}

WebPBitstreamFeatures features_of(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  WebPBitstreamFeatures features;
  if (const auto status = WebPGetFeatures(bytes.data(), bytes.size(), &features); status != VP8_STATUS_OK)
    refuse_decoding(file, "WebP", text_of(status));
  if (features.has_animation != 0) refuse_picture(file, "WebP", "an animation, expected one picture");
  return features;
}

double linear_of(double value) { return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4); }
double srgb_of(double value) { return value <= 0.0031308 ? 12.92 * value : 1.055 * std::pow(value, 1 / 2.4) - 0.055; }

/// RGBA to RGB over white, in linear light (IEC 61966-2-1).
void remove_alpha(std::vector<std::uint8_t>& pixels) {
  constexpr std::uint8_t kOpaque = 255;
  for (std::size_t from = 0, to = 0; from < pixels.size(); from += 4)
    for (std::size_t c = 0; c < 3; ++c) {
      const std::uint8_t alpha = pixels[from + 3], value = pixels[from + c];
      const double share = alpha / 255.0;
      pixels[to++] =
          alpha == kOpaque ? value
          : alpha == 0
              ? std::uint8_t{255}
              : static_cast<std::uint8_t>(std::lround(255 * srgb_of(share * linear_of(value / 255.0) + 1 - share)));
    }
  pixels.resize(pixels.size() / 4 * 3);
}

}  // namespace

void decode_webp(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding,
                 Image& image) {
  const WebPBitstreamFeatures features = features_of(bytes, file);
  const bool has_alpha = features.has_alpha != 0;
  const int channels = has_alpha ? 4 : 3;
  constexpr int kDecoderBytes = 4;  // of a lossless picture libwebp keeps all pixels
  check_size(features.width, features.height, channels + kDecoderBytes, decoding, file, "WebP");
  image.width = features.width;
  image.height = features.height;
  image.rgb.resize(static_cast<std::size_t>(image.width * image.height * channels));
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) refuse_decoding(file, "WebP", "libwebp has another version than its header");
  config.output.colorspace = has_alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {image.rgb.data(), static_cast<int>(image.width) * channels, image.rgb.size()};
  const VP8StatusCode status = WebPDecode(bytes.data(), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) refuse_decoding(file, "WebP", text_of(status));
  if (has_alpha) remove_alpha(image.rgb);
}

std::array<std::int64_t, 2> webp_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  const WebPBitstreamFeatures features = features_of(bytes, file);
  return {features.width, features.height};
}

}  // namespace nixie
