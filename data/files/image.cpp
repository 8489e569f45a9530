// Image: libjpeg-turbo, libpng and a separable triangle filter.
#include "nixie/data/files/image.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string_view>

#include "nixie/core/base/dtype.h"

namespace nixie {
namespace {

// An honest image beyond the free size has more bytes than this; what has fewer is a decompression bomb.
constexpr std::int64_t kFreePixels = 16 << 20, kMaxPixels = 64 << 20, kPixelsPerByte = 20;

[[noreturn]] void fail_image(const std::filesystem::path& file, std::string_view kind, std::string_view reason) {
  fail(Fault::data, file.string(), ": ", kind, ": ", reason, "; replace or remove the file");
}

void check_size(std::int64_t width, std::int64_t height, std::size_t bytes, const std::filesystem::path& file,
                std::string_view kind) {
  const std::int64_t limit = std::clamp(static_cast<std::int64_t>(bytes) * kPixelsPerByte, kFreePixels, kMaxPixels);
  if (width < 1 || height < 1 || width > limit / height)
    fail_image(file, kind, fmt::format("{} x {} pixels in {} bytes, at most {} are read", width, height, bytes, limit));
}

/// True where pixels are missing or wrong; stray bytes between segments harm nothing and are common.
bool is_damage(tjhandle jpeg) {
  return tjGetErrorCode(jpeg) == TJERR_FATAL ||
         std::string_view(tjGetErrorStr2(jpeg)).find("extraneous bytes") == std::string_view::npos;
}

struct DestroyJpeg {
  void operator()(void* jpeg) const { tjDestroy(jpeg); }
};
using JpegDecoder = std::unique_ptr<void, DestroyJpeg>;

struct JpegHeader {
  int width = 0, height = 0, colorspace = 0;
};

/// One for each image (0.2 us): a decoder keeps tables of the last one, and of a damaged one a state.
JpegDecoder make_jpeg_decoder() {
  JpegDecoder decoder(tjInitDecompress());
  if (!decoder) fail(Fault::memory, "no memory for a JPEG decoder");
  return decoder;
}

JpegHeader read_jpeg_header(tjhandle jpeg, std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  JpegHeader header;
  int subsampling = 0;
  if (tjDecompressHeader3(jpeg, bytes.data(), bytes.size(), &header.width, &header.height, &subsampling,
                          &header.colorspace) &&
      is_damage(jpeg))
    fail_image(file, "damaged JPEG", tjGetErrorStr2(jpeg));
  if (header.width == 0) fail_image(file, "damaged JPEG", "no image in it");  // tables alone are no error to libjpeg
  check_size(header.width, header.height, bytes.size(), file, "JPEG");
  return header;
}

Image decode_jpeg(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side) {
  const JpegDecoder decoder = make_jpeg_decoder();
  const tjhandle jpeg = decoder.get();
  const auto [width, height, colorspace] = read_jpeg_header(jpeg, bytes, file);
  tjscalingfactor scale{1, 1};
  for (const int denominator : {2, 4, 8})
    if (std::min(width, height) / denominator >= least_side) scale.denom = denominator;

  const bool is_cmyk = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK;
  const std::size_t channels = is_cmyk ? 4 : 3;
  Image image{TJSCALED(width, scale), TJSCALED(height, scale), {}};
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(image.width * image.height) * channels);
  if (tjDecompress2(jpeg, bytes.data(), bytes.size(), pixels.data(), static_cast<int>(image.width), 0,
                    static_cast<int>(image.height), is_cmyk ? TJPF_CMYK : TJPF_RGB, TJFLAG_LIMITSCANS) &&
      is_damage(jpeg))
    fail_image(file, "damaged JPEG", tjGetErrorStr2(jpeg));
  if (is_cmyk) {
    for (std::size_t from = 0, to = 0; from < pixels.size(); from += 4)
      for (std::size_t c = 0; c < 3; ++c)
        pixels[to++] = static_cast<std::uint8_t>((pixels[from + c] * pixels[from + 3] + 127) / 255);
    pixels.resize(pixels.size() / 4 * 3);
  }
  image.rgb = std::move(pixels);
  return image;
}

using PngReader = std::unique_ptr<png_image, void (*)(png_image*)>;

PngReader read_png_header(png_image& png, std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  png.version = PNG_IMAGE_VERSION;
  PngReader release(&png, [](png_image* p) { png_image_free(p); });
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) fail_image(file, "damaged PNG", png.message);
  check_size(png.width, png.height, bytes.size(), file, "PNG");
  return release;
}

Image decode_png(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  png_image png{};
  const PngReader release = read_png_header(png, bytes, file);
  png.format = PNG_FORMAT_RGB;
  Image image{png.width, png.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(png))};
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&png, &white, image.rgb.data(), 0, nullptr)) fail_image(file, "damaged PNG", png.message);
  return image;
}

bool begins_with(std::span<const std::uint8_t> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

/// The source positions that make up each of some scaled positions, and their weights, which sum to 1.
struct Taps {
  std::vector<std::int64_t> first = {};  ///< of each position
  std::int64_t most = 1;                 ///< taps of a position; those that it does not need weigh 0
  std::vector<float> weights = {};       ///< [most, positions]

  std::size_t count() const { return first.size(); }
  float weight(std::int64_t tap, std::size_t position) const {
    return weights[static_cast<std::size_t>(tap) * count() + position];
  }
};

/// The taps of `count` positions from `offset` on, when `from` pixels are scaled to `to`.
Taps make_taps(std::int64_t from, std::int64_t to, std::int64_t offset, std::int64_t count) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(scale, 1.0);
  Taps taps;
  std::vector<std::vector<double>> all;
  for (std::int64_t i = offset; i < offset + count; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto weight = [&](std::int64_t k) {
      return std::max(0.0, 1 - std::abs(static_cast<double>(k) - center) / reach);
    };
    auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(center - reach)));
    auto last = std::min(from - 1, static_cast<std::int64_t>(std::floor(center + reach)));
    while (first < last && weight(first) == 0) ++first;  // what weighs nothing costs nothing
    while (first < last && weight(last) == 0) --last;
    std::vector<double>& weights = all.emplace_back();
    double sum = 0;
    for (std::int64_t k = first; k <= last; ++k) {
      weights.push_back(static_cast<float>(weight(k)));
      sum += weight(k);
    }
    for (double& each : weights) each /= sum;
    taps.first.push_back(first);
    taps.most = std::max(taps.most, last - first + 1);
  }
  taps.weights.resize(static_cast<std::size_t>(taps.most) * all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < all[i].size(); ++k) taps.weights[k * all.size() + i] = static_cast<float>(all[i][k]);
  return taps;
}

/// What of a window's part lies within the scaled box, and where in the sample it goes.
struct Visible {
  Box part;
  std::int64_t right = 0, down = 0;
};

Visible visible_of(const Window& window) {
  const Box& part = window.part;
  const std::int64_t left = std::max<std::int64_t>(part.left, 0), top = std::max<std::int64_t>(part.top, 0),
                     width = std::min(part.left + part.width, window.width) - left,
                     height = std::min(part.top + part.height, window.height) - top;
  if (width < 1 || height < 1) return {};
  const std::int64_t before = left - part.left;
  return {{left, top, width, height}, window.mirrored ? part.width - width - before : before, top - part.top};
}

/// The positions in reverse.
void mirror(Taps& taps) {
  std::reverse(taps.first.begin(), taps.first.end());
  const auto count = static_cast<std::ptrdiff_t>(taps.count());
  for (auto row = taps.weights.begin(); row != taps.weights.end(); row += count) std::reverse(row, row + count);
}

enum class Format { jpeg, png };

Format format_of(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  if (begins_with(bytes, "\xff\xd8\xff")) return Format::jpeg;
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return Format::png;
  fail_image(file, fmt::format("{} bytes", bytes.size()), "neither JPEG nor PNG");
}

}  // namespace

Image decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side) {
  return format_of(bytes, file) == Format::jpeg ? decode_jpeg(bytes, file, least_side) : decode_png(bytes, file);
}

std::array<std::int64_t, 2> image_size(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  if (format_of(bytes, file) == Format::jpeg) {
    const JpegHeader header = read_jpeg_header(make_jpeg_decoder().get(), bytes, file);
    return {header.width, header.height};
  }
  png_image png{};
  const PngReader release = read_png_header(png, bytes, file);
  return {png.width, png.height};
}

std::array<std::int64_t, 2> covering_size(const Image& image, std::int64_t width, std::int64_t height) {
  if (width * image.height >= height * image.width) return {width, width * image.height / image.width};
  return {height * image.width / image.height, height};
}

Window centre_window(const Image& image, std::int64_t short_side, std::int64_t width, std::int64_t height) {
  const std::int64_t least = std::min(width, height);
  const auto [scaled_width, scaled_height] =
      covering_size(image, width * short_side / least, height * short_side / least);
  const auto middle = [](std::int64_t room) {  // halves go to the even number, as in torchvision
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(room) / 2));
  };
  return {.source = {0, 0, image.width, image.height},
          .width = scaled_width,
          .height = scaled_height,
          .part = {middle(scaled_width - width), middle(scaled_height - height), width, height}};
}

std::vector<float> cut_window(const Image& image, const Window& window) {
  const auto& [source_box, width, height, sample, mirrored] = window;
  const auto plane = static_cast<std::size_t>(sample.width * sample.height);
  std::vector<float> result(3 * plane);
  const auto [part, right, down] = visible_of(window);
  if (part.width == 0) return result;
  const Taps rows = make_taps(source_box.height, height, part.top, part.height);
  Taps columns = make_taps(source_box.width, width, part.left, part.width);
  const std::int64_t first = columns.first.front(),
                     last = std::min(columns.first.back() + columns.most, source_box.width);
  if (mirrored) mirror(columns);
  const auto count = columns.count(), stride = static_cast<std::size_t>(sample.width),
             span = static_cast<std::size_t>(last - first),
             padded = span + static_cast<std::size_t>(columns.most);  // taps that weigh 0 may stand beyond the span
  std::vector<std::int32_t> from;
  for (const std::int64_t each : columns.first) from.push_back(static_cast<std::int32_t>(each - first));

  std::vector<float> line(3 * span), channel(padded);
  for (std::size_t y = 0; y < rows.count(); ++y) {
    // First down, over whole lines of the source, then across, channel by channel.
    std::fill(line.begin(), line.end(), 0.0f);
    const std::uint8_t* source =
        image.rgb.data() + ((source_box.top + rows.first[y]) * image.width + source_box.left + first) * 3;
    for (std::int64_t k = 0; k < rows.most; ++k, source += image.width * 3) {
      const float weight = rows.weight(k, y);
      if (weight == 0) break;
      for (std::size_t i = 0; i < line.size(); ++i) line[i] += weight * static_cast<float>(source[i]);
    }
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t i = 0; i < span; ++i) channel[i] = line[3 * i + c];
      float* to = result.data() + c * plane + (y + static_cast<std::size_t>(down)) * stride + right;
      for (std::int64_t k = 0; k < columns.most; ++k) {
        const float *weights = columns.weights.data() + static_cast<std::size_t>(k) * count, *at = channel.data() + k;
        for (std::size_t x = 0; x < count; ++x) to[x] += weights[x] * at[from[x]];
      }
    }
  }
  return result;
}

void cut_bytes(const Image& image, const Window& window, std::int64_t channels, std::span<std::uint8_t> bytes) {
  const auto& [source_box, width, height, sample, mirrored] = window;
  if (width != source_box.width || height != source_box.height || channels != 3)
    return round_pixels(cut_window(image, window), channels, bytes);
  const auto plane = static_cast<std::size_t>(sample.width * sample.height);
  const auto [part, right, down] = visible_of(window);
  if (part.width != sample.width || part.height != sample.height)
    std::fill(bytes.begin(), bytes.end(), std::uint8_t{0});
  for (std::int64_t y = 0; y < part.height; ++y) {
    std::uint8_t* to = bytes.data() + (down + y) * sample.width + right;
    const std::uint8_t* from =
        image.rgb.data() + ((source_box.top + part.top + y) * image.width + source_box.left + part.left) * 3;
    const std::int64_t step = mirrored ? -3 : 3;
    if (mirrored) from += 3 * (part.width - 1);
    for (std::int64_t x = 0; x < part.width; ++x, from += step, ++to)
      to[0] = from[0], to[plane] = from[1], to[2 * plane] = from[2];
  }
}

void round_pixels(const std::vector<float>& rgb, std::int64_t channels, std::span<std::uint8_t> bytes) {
  const std::size_t plane = rgb.size() / 3;
  const float *red = rgb.data(), *green = red + plane, *blue = green + plane;
  // Written out, not by `convert`, so that it runs on many pixels at once.
  const auto rounded = [](float value) {
    return static_cast<std::uint8_t>(static_cast<std::int32_t>(std::nearbyint(std::clamp(value, 0.0f, 255.0f))));
  };
  if (channels == 3)
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = rounded(red[i]);
  else
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = rounded(0.299f * red[i] + 0.587f * green[i] + 0.114f * blue[i]);
}

}  // namespace nixie
