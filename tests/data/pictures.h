// Pictures made on the spot for the tests of image files.
#pragma once

#include <png.h>
#include <turbojpeg.h>

#include "nixie/data/files/folder_scan.h"
#include "nixie/data/files/window.h"
#include "nixie/tests/data/support.h"

namespace nixie::test {

/// A smooth picture, so that JPEG keeps it nearly as it is; other phases give other pictures.
inline Image picture(std::int64_t width, std::int64_t height, double phase = 0) {
  Image image{width, height, {}};
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c)
        image.rgb.push_back(static_cast<std::uint8_t>(
            128 + 100 * std::sin(phase + c + 6.0 * static_cast<double>(x) / static_cast<double>(width) +
                                 4.0 * static_cast<double>(y) / static_cast<double>(height))));
  return image;
}

inline Bytes encode(const std::uint8_t* pixels, const Image& image, int format, int subsampling, int flags) {
  const tjhandle jpeg = tjInitCompress();
  unsigned char* out = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(jpeg, pixels, static_cast<int>(image.width), 0, static_cast<int>(image.height), format, &out,
                        &size, subsampling, 95, flags),
            0)
      << tjGetErrorStr2(jpeg);
  Bytes bytes(out, out + size);
  tjFree(out);
  tjDestroy(jpeg);
  return bytes;
}

inline Bytes jpeg(const Image& image, int subsampling = TJSAMP_444, int flags = 0) {
  return encode(image.rgb.data(), image, TJPF_RGB, subsampling, flags);
}

/// As Adobe writes CMYK: inverted.
inline Bytes cmyk_jpeg(const Image& image) {
  Bytes cmyk;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
    const int black = std::max({image.rgb[i], image.rgb[i + 1], image.rgb[i + 2], std::uint8_t{1}});
    for (std::size_t c = 0; c < 3; ++c) cmyk.push_back(static_cast<std::uint8_t>(image.rgb[i + c] * 255 / black));
    cmyk.push_back(static_cast<std::uint8_t>(black));
  }
  return encode(cmyk.data(), image, TJPF_CMYK, TJSAMP_444, 0);
}

inline Bytes png(const Bytes& pixels, std::int64_t width, std::int64_t height, png_uint_32 format = PNG_FORMAT_RGB) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  png_image_write_get_memory_size(image, size, 0, pixels.data(), 0, nullptr);
  Bytes bytes(size);
  EXPECT_TRUE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr)) << image.message;
  bytes.resize(size);
  return bytes;
}
/// A PNG whose rows (a filter byte and the pixels) are given; `extra` are chunks before its pixels.
inline Bytes png_chunk(const char* type, const Bytes& data) {
  const Bytes body = Bytes(type, type + 4) + data;
  const auto sum = crc32(0, body.data(), static_cast<uInt>(body.size()));
  return big_endian({static_cast<std::uint32_t>(data.size())}) + body + big_endian({static_cast<std::uint32_t>(sum)});
}
inline Bytes png_of_rows(std::uint32_t width, std::uint32_t height, std::uint8_t bits, int colour_type,
                         const Bytes& rows, const Bytes& extra = {}) {
  Bytes packed(compressBound(rows.size()));
  uLongf size = packed.size();
  compress2(packed.data(), &size, rows.data(), rows.size(), 1);
  packed.resize(size);
  return Bytes{0x89, 'P', 'N', 'G', 13, 10, 26, 10} +
         png_chunk("IHDR", big_endian({width, height}) + Bytes{bits, static_cast<std::uint8_t>(colour_type), 0, 0, 0}) +
         extra + png_chunk("IDAT", packed) + png_chunk("IEND", {});
}
inline Bytes png(const Image& image) { return png(image.rgb, image.width, image.height); }

/// The pictures' names, of each class.
inline std::vector<std::vector<std::string>> names_of(const FolderScan& scan) {
  std::vector<std::vector<std::string>> names;
  for (const auto& pictures : scan.pictures) {
    names.emplace_back();
    for (const Picture& picture : pictures) names.back().push_back(picture.name);
  }
  return names;
}

}  // namespace nixie::test
