// Image: recognises the format, decodes, turns upright.
#include "nixie/data/files/image.h"

#include <algorithm>
#include <string_view>

#include "nixie/core/base/error.h"
#include "nixie/data/pictures/jpeg.h"
#include "nixie/data/pictures/orientation.h"
#include "nixie/data/pictures/png.h"
#include "nixie/data/pictures/refusal.h"
#include "nixie/data/pictures/webp.h"

namespace nixie {
namespace {

bool holds(std::span<const std::uint8_t> bytes, std::size_t at, std::string_view magic) {
  return bytes.size() >= at + magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

enum class Format { jpeg, png, webp };

Format format_of(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  if (holds(bytes, 0, "\xff\xd8\xff")) return Format::jpeg;
  if (holds(bytes, 0, "\x89PNG\r\n\x1a\n")) return Format::png;
  if (holds(bytes, 0, "RIFF") && holds(bytes, 8, "WEBP")) return Format::webp;
  refuse_picture(file, fmt::format("{} bytes", bytes.size()), "neither JPEG nor PNG nor WebP");
}

/// Turns what holds `channels` bytes for each pixel.
void turn(std::span<const std::uint8_t> bytes, const Decoding& decoding, std::int64_t channels, std::int64_t& width,
          std::int64_t& height, std::vector<std::uint8_t>& pixels) {
  const int orientation = decoding.upright ? orientation_of(bytes) : 1;
  if (orientation == 1) return;
  pixels = turned(pixels, width, height, channels, orientation);
  if (swaps_sides(orientation)) std::swap(width, height);
}

}  // namespace

Image decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding) {
  Image image;
  decode_image(bytes, file, decoding, image);
  return image;
}

void decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding,
                  Image& image) {
  switch (format_of(bytes, file)) {
    case Format::jpeg:
      decode_jpeg(bytes, file, decoding, image);
      break;
    case Format::png:
      decode_png(bytes, file, decoding, image);
      break;
    case Format::webp:
      decode_webp(bytes, file, decoding, image);
  }
  turn(bytes, decoding, 3, image.width, image.height, image.rgb);
}

Mask decode_mask(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, const Decoding& decoding) {
  const Format format = format_of(bytes, file);
  if (format != Format::png)
    refuse_picture(file, "mask",
                   fmt::format("{} changes classes, expected PNG", format == Format::jpeg ? "JPEG" : "WebP"));
  Mask mask = decode_png_mask(bytes, file, decoding);
  turn(bytes, decoding, 1, mask.width, mask.height, mask.classes);
  return mask;
}

std::array<std::int64_t, 2> image_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file,
                                       bool upright) {
  const auto size = [&]() -> std::array<std::int64_t, 2> {
    switch (format_of(bytes, file)) {
      case Format::jpeg:
        return jpeg_size(bytes, file);
      case Format::png:
        return png_size(bytes, file);
      case Format::webp:
        return webp_size(bytes, file);
    }
    return {};
  }();
  if (upright && swaps_sides(orientation_of(bytes))) return {size[1], size[0]};
  return size;
}

bool is_turned(std::span<const std::uint8_t> bytes) { return orientation_of(bytes) != 1; }

}  // namespace nixie
