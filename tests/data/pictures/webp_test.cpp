// WebP: lossless against what was encoded, alpha as PNG's, orientation, animations and damage.
#include "nixie/data/pictures/webp.h"

#include <webp/encode.h>

#include "nixie/data/preparation.h"
#include "nixie/tests/data/exif.h"
#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

Bytes taken(std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, data + size);
  WebPFree(data);
  return bytes;
}
Bytes lossless(const Bytes& rgb, int width, int height) {
  std::uint8_t* data = nullptr;
  return taken(data, WebPEncodeLosslessRGB(rgb.data(), width, height, 3 * width, &data));
}
Bytes lossless_alpha(const Bytes& rgba, int width, int height) {
  std::uint8_t* data = nullptr;
  return taken(data, WebPEncodeLosslessRGBA(rgba.data(), width, height, 4 * width, &data));
}
Bytes lossy(const Image& image) {
  std::uint8_t* data = nullptr;
  const auto width = static_cast<int>(image.width);
  return taken(data, WebPEncodeRGB(image.rgb.data(), width, static_cast<int>(image.height), 3 * width, 95, &data));
}

Bytes little_endian(std::uint32_t value) {
  return {static_cast<std::uint8_t>(value), static_cast<std::uint8_t>(value >> 8),
          static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 24)};
}

/// The container with an extended header: `chunk` is behind the pixels of `file`, a simple one.
Bytes extended(const Bytes& file, std::uint8_t flags, std::uint32_t width, std::uint32_t height, const Bytes& chunk) {
  const auto size = [](std::uint32_t side) {
    Bytes bytes = little_endian(side - 1);
    bytes.pop_back();
    return bytes;
  };
  const Bytes body = Bytes{'W', 'E', 'B', 'P', 'V', 'P', '8', 'X'} + little_endian(10) + Bytes{flags, 0, 0, 0} +
                     size(width) + size(height) + Bytes(file.begin() + 12, file.end()) + chunk;
  return Bytes{'R', 'I', 'F', 'F'} + little_endian(static_cast<std::uint32_t>(body.size())) + body;
}

TEST(WebP, DecodesWhatWasEncoded) {
  const Image image = picture(51, 37);
  EXPECT_EQ(decode_image(lossless(image.rgb, 51, 37), "a.webp").rgb, image.rgb);
  const Image decoded = decode_image(lossy(image), "a.webp");
  ASSERT_EQ(decoded.rgb.size(), image.rgb.size());
  double difference = 0;
  for (std::size_t i = 0; i < image.rgb.size(); ++i) difference += std::abs(decoded.rgb[i] - image.rgb[i]);
  EXPECT_LT(difference / static_cast<double>(image.rgb.size()), 4);
  EXPECT_EQ(image_size(lossy(image), "a.webp"), (std::array<std::int64_t, 2>{51, 37}));
  EXPECT_TRUE(is_picture_name("a.WebP"));
}

TEST(WebP, AlphaIsBlendedAsThatOfPng) {
  Bytes rgba;
  std::mt19937 random(2);
  for (int i = 0; i < 32 * 32; ++i)
    rgba = rgba + Bytes{static_cast<std::uint8_t>(random()), static_cast<std::uint8_t>(random()),
                        static_cast<std::uint8_t>(random()), static_cast<std::uint8_t>(i % 256)};
  const Bytes of_webp = decode_image(lossless_alpha(rgba, 32, 32), "a.webp").rgb,
              of_png = decode_image(png(rgba, 32, 32, PNG_FORMAT_RGBA), "a.png").rgb;
  ASSERT_EQ(of_webp.size(), of_png.size());
  double sum = 0;
  for (std::size_t i = 0; i < of_webp.size(); ++i) {
    const int difference = std::abs(of_webp[i] - of_png[i]);
    ASSERT_LE(difference, 8) << i;  // libpng rounds to 8 linear bits on its way, which shows where it is dark
    sum += difference;
  }
  EXPECT_LT(sum / static_cast<double>(of_webp.size()), 1);
}

TEST(WebP, IsTurnedUpright) {
  constexpr std::uint8_t kHasExif = 8;
  const Image image = picture(8, 6);
  for (const bool has_name : {false, true}) {
    const Bytes block = (has_name ? Bytes{'E', 'x', 'i', 'f', 0, 0} : Bytes{}) + exif(6, true);
    const Bytes chunk = Bytes{'E', 'X', 'I', 'F'} + little_endian(static_cast<std::uint32_t>(block.size())) + block;
    const Bytes file = extended(lossless(image.rgb, 8, 6), kHasExif, 8, 6, chunk);
    EXPECT_EQ(decode_image(file, "a.webp", {.upright = false}).rgb, image.rgb);
    EXPECT_EQ(decode_image(file, "a.webp").rgb, decode_image(with_exif_in_png(png(image), exif(6)), "a.png").rgb);
    EXPECT_EQ(image_size(file, "a.webp"), (std::array<std::int64_t, 2>{6, 8}));
  }
}

TEST(WebP, RefusesAnimationsMasksAndDamage) {
  constexpr std::uint8_t kIsAnimated = 2;
  const Bytes good = lossless(picture(40, 30).rgb, 40, 30);
  const auto line = [](const Bytes& bytes, const Decoding& decoding = {}) {
    return error_of(Fault::data, [&] { decode_image(bytes, "a.webp", decoding); });
  };
  EXPECT_THAT(line(extended(good, kIsAnimated, 40, 30, {})),
              HasSubstr("a.webp: WebP: an animation, expected one picture"));
  EXPECT_FAULT(data, "WebP changes classes, expected PNG", decode_mask(good, "m.webp"));
  EXPECT_THAT(line(good, {.megapixels = 0.001}), HasSubstr("40 x 30 pixels, at most 0.001 million are read"));
  for (std::size_t size = 12; size + 1 < good.size(); size += 7)
    EXPECT_THAT(line(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size))),
                HasSubstr("damaged WebP: "))
        << size;
}

TEST(WebP, SurvivesMutants) {
  const Image image = picture(40, 30);
  const auto read = [](const Bytes& bytes) {
    const Image decoded = decode_image(bytes, "mutant", {.megapixels = 16});
    EXPECT_EQ(static_cast<std::int64_t>(decoded.rgb.size()), 3 * decoded.width * decoded.height);
  };
  for (const Bytes& good : {lossy(image), lossless(image.rgb, 40, 30), lossless_alpha(Bytes(40 * 30 * 4, 77), 40, 30)})
    refused_mutants(good, 500, read);
}

}  // namespace
}  // namespace nixie
