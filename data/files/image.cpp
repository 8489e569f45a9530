// Image: libjpeg-turbo and libpng.
#include "nixie/data/files/image.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
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

/// What a decoder says of a file. Where it found no memory only its words tell ("Insufficient memory", "Memory
/// allocation failure"), and the file may be good.
[[noreturn]] void fail_decoding(const std::filesystem::path& file, std::string_view format, std::string_view reason) {
  if (reason.find("emory") != std::string_view::npos)
    fail(Fault::memory, file.string(), ": out of memory while the ", format, " is decoded: ", reason);
  fail_image(file, fmt::format("damaged {}", format), reason);
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
    fail_decoding(file, "JPEG", tjGetErrorStr2(jpeg));
  if (header.width == 0) fail_image(file, "damaged JPEG", "no image in it");  // tables alone are no error to libjpeg
  check_size(header.width, header.height, bytes.size(), file, "JPEG");
  return header;
}

void decode_jpeg(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side,
                 Image& image) {
  const JpegDecoder decoder = make_jpeg_decoder();
  const tjhandle jpeg = decoder.get();
  const auto [width, height, colorspace] = read_jpeg_header(jpeg, bytes, file);
  tjscalingfactor scale{1, 1};
  for (const int denominator : {2, 4, 8})
    if (std::min(width, height) / denominator >= least_side) scale.denom = denominator;

  const bool is_cmyk = colorspace == TJCS_CMYK || colorspace == TJCS_YCCK;
  const std::size_t channels = is_cmyk ? 4 : 3;
  image.width = TJSCALED(width, scale);
  image.height = TJSCALED(height, scale);
  std::vector<std::uint8_t>& pixels = image.rgb;
  pixels.resize(static_cast<std::size_t>(image.width * image.height) * channels);
  if (tjDecompress2(jpeg, bytes.data(), bytes.size(), pixels.data(), static_cast<int>(image.width), 0,
                    static_cast<int>(image.height), is_cmyk ? TJPF_CMYK : TJPF_RGB, TJFLAG_LIMITSCANS) &&
      is_damage(jpeg))
    fail_decoding(file, "JPEG", tjGetErrorStr2(jpeg));
  if (is_cmyk) {
    for (std::size_t from = 0, to = 0; from < pixels.size(); from += 4)
      for (std::size_t c = 0; c < 3; ++c)
        pixels[to++] = static_cast<std::uint8_t>((pixels[from + c] * pixels[from + 3] + 127) / 255);
    pixels.resize(pixels.size() / 4 * 3);
  }
}

using PngReader = std::unique_ptr<png_image, void (*)(png_image*)>;

PngReader read_png_header(png_image& png, std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  png.version = PNG_IMAGE_VERSION;
  PngReader release(&png, [](png_image* p) { png_image_free(p); });
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size())) fail_decoding(file, "PNG", png.message);
  check_size(png.width, png.height, bytes.size(), file, "PNG");
  // 16 bits without a gamma are as bright as 8; libpng would take them as linear.
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  return release;
}

void decode_png(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, Image& image) {
  png_image png{};
  const PngReader release = read_png_header(png, bytes, file);
  png.format = PNG_FORMAT_RGB;
  image.width = png.width;
  image.height = png.height;
  image.rgb.resize(PNG_IMAGE_SIZE(png));
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&png, &white, image.rgb.data(), 0, nullptr)) fail_decoding(file, "PNG", png.message);
}

bool begins_with(std::span<const std::uint8_t> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

enum class Format { jpeg, png };

Format format_of(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  if (begins_with(bytes, "\xff\xd8\xff")) return Format::jpeg;
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return Format::png;
  fail_image(file, fmt::format("{} bytes", bytes.size()), "neither JPEG nor PNG");
}

}  // namespace

Image decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side) {
  Image image;
  decode_image(bytes, file, least_side, image);
  return image;
}

void decode_image(std::span<const std::uint8_t> bytes, const std::filesystem::path& file, std::int64_t least_side,
                  Image& image) {
  if (format_of(bytes, file) == Format::jpeg)
    decode_jpeg(bytes, file, least_side, image);
  else
    decode_png(bytes, file, image);
}

Mask decode_mask(std::span<const std::uint8_t> bytes, const std::filesystem::path& file) {
  if (format_of(bytes, file) != Format::png) fail_image(file, "mask", "JPEG changes classes, expected PNG");
  png_image png{};
  const PngReader release = read_png_header(png, bytes, file);
  const bool has_palette = (png.format & PNG_FORMAT_FLAG_COLORMAP) != 0;
  if ((png.format & PNG_FORMAT_FLAG_LINEAR) != 0 ||
      (!has_palette && (png.format & (PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA)) != 0))
    fail_image(file, "mask", "true colours, transparency or 16 bits, expected grey levels or a palette");
  png.format = PNG_FORMAT_RGB_COLORMAP;  // whose indices are the levels, or those of the file's palette
  Mask mask{png.width, png.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(png))};
  std::array<std::uint8_t, 256 * 3> palette{};
  const png_color white{255, 255, 255};
  if (!png_image_finish_read(&png, &white, mask.classes.data(), 0, palette.data()))
    fail_decoding(file, "PNG", png.message);
  return mask;
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

}  // namespace nixie
