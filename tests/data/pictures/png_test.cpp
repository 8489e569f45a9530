// PNG: values as they are stored, whatever other chunks say, and libpng's simplified reader as the reference.
#include "nixie/data/pictures/png.h"

#include <ctime>

#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

struct Form {
  const char* title;
  int colour_type;
  std::uint8_t bits;
  std::int64_t row_bytes;
  Bytes colours = {};  ///< chunks of colours: PLTE, tRNS
  bool is_clear = false;
};

constexpr std::uint32_t kWidth = 13, kHeight = 9;

std::vector<Form> forms() {
  Bytes palette;
  for (int i = 0; i < 16; ++i) palette = palette + Bytes{static_cast<std::uint8_t>(i * 16), 64, 200};
  const Bytes plte = png_chunk("PLTE", palette);
  return {{"grey of 1 bit", PNG_COLOR_TYPE_GRAY, 1, 2},
          {"grey of 2 bits", PNG_COLOR_TYPE_GRAY, 2, 4},
          {"grey of 8 bits", PNG_COLOR_TYPE_GRAY, 8, kWidth},
          {"grey of 16 bits", PNG_COLOR_TYPE_GRAY, 16, 2 * kWidth},
          {"grey with a clear level", PNG_COLOR_TYPE_GRAY, 2, 4, png_chunk("tRNS", {0, 1}), true},
          {"grey with alpha", PNG_COLOR_TYPE_GA, 8, 2 * kWidth, {}, true},
          {"RGB", PNG_COLOR_TYPE_RGB, 8, 3 * kWidth},
          {"RGB of 16 bits", PNG_COLOR_TYPE_RGB, 16, 6 * kWidth},
          {"RGBA", PNG_COLOR_TYPE_RGBA, 8, 4 * kWidth, {}, true},
          {"RGBA of 16 bits", PNG_COLOR_TYPE_RGBA, 16, 8 * kWidth, {}, true},
          {"palette", PNG_COLOR_TYPE_PALETTE, 4, 7, plte},
          {"palette with clear colours", PNG_COLOR_TYPE_PALETTE, 4, 7, plte + png_chunk("tRNS", {0, 128, 255}), true}};
}

Bytes file_of(const Form& form, const Bytes& before = {}) {
  std::mt19937 random(11);
  Bytes rows;
  for (std::uint32_t y = 0; y < kHeight; ++y) {
    rows.push_back(0);
    for (std::int64_t i = 0; i < form.row_bytes; ++i) rows.push_back(static_cast<std::uint8_t>(random()));
  }
  return png_of_rows(kWidth, kHeight, form.bits, form.colour_type, rows, before + form.colours);
}

/// By libpng's simplified reader, which knows a file without gamma as we do.
Bytes simplified(const Bytes& file) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  EXPECT_TRUE(png_image_begin_read_from_memory(&png, file.data(), file.size())) << png.message;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  png.format = PNG_FORMAT_RGB;
  Bytes rgb(PNG_IMAGE_SIZE(png));
  const png_color white{255, 255, 255};
  EXPECT_TRUE(png_image_finish_read(&png, &white, rgb.data(), 0, nullptr)) << png.message;
  return rgb;
}

TEST(Png, DecodesAsTheSimplifiedReader) {
  for (const Form& form : forms())
    EXPECT_EQ(decode_image(file_of(form), "a.png").rgb, simplified(file_of(form))) << form.title;
}

TEST(Png, NoGammaAndNoProfileChangesAValue) {
  const struct {
    const char* title;
    Bytes chunk;
  } chunks[] = {
      {"gAMA 1", png_chunk("gAMA", big_endian({100000}))},
      {"gAMA 0.55555", png_chunk("gAMA", big_endian({55555}))},
      {"gAMA 1/2.2", png_chunk("gAMA", big_endian({45455}))},
      {"gAMA 1/1.8 and a palette's background", png_chunk("gAMA", big_endian({55556})) + png_chunk("sBIT", {5, 5, 5})},
      {"sRGB", png_chunk("sRGB", {0})},
      {"cHRM", png_chunk("cHRM", big_endian({31270, 32900, 70000, 29000, 21000, 71000, 13000, 4000}))},
      {"cHRM and gAMA", png_chunk("cHRM", big_endian({31270, 32900, 70000, 29000, 21000, 71000, 13000, 4000})) +
                            png_chunk("gAMA", big_endian({100000}))},
      {"iCCP", png_chunk("iCCP", Bytes{'x', 0, 0, 1, 2, 3})}};
  for (const Form& form : forms())
    for (const auto& each : chunks)
      EXPECT_EQ(decode_image(file_of(form, each.chunk), "a.png").rgb, decode_image(file_of(form), "a.png").rgb)
          << form.title << ", " << each.title;
  const Bytes level = png_of_rows(1, 1, 8, PNG_COLOR_TYPE_GRAY, {0, 64}, png_chunk("gAMA", big_endian({100000})));
  EXPECT_EQ(decode_image(level, "a.png").rgb, (Bytes{64, 64, 64}));
}

TEST(Png, LevelsOfAMaskAreThoseStored) {
  const Bytes rows = {0, 0b00011011};
  for (const Bytes& before : {Bytes{}, png_chunk("gAMA", big_endian({100000}))})
    EXPECT_EQ(decode_mask(png_of_rows(4, 1, 2, PNG_COLOR_TYPE_GRAY, rows, before), "m.png").classes,
              (Bytes{0, 1, 2, 3}));
}

/// As png_write_image writes with Adam7.
Bytes interlaced(std::uint32_t width, std::uint32_t height, const Bytes& rgb) {
  Bytes file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &file,
      [](png_structp p, png_bytep data, std::size_t size) {
        auto& to = *static_cast<Bytes*>(png_get_io_ptr(p));
        to.insert(to.end(), data, data + size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_ADAM7, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_bytep> rows;
  for (std::uint32_t y = 0; y < height; ++y)
    rows.push_back(const_cast<png_bytep>(rgb.data()) + std::size_t{3} * width * y);
  png_set_rows(png, info, rows.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

TEST(Png, InterlacedPicturesAreWhole) {
  for (std::uint32_t width = 1; width < 12; ++width)
    for (std::uint32_t height = 1; height < 12; ++height) {
      const Image image = picture(width, height);
      const Bytes file = interlaced(width, height, image.rgb);
      EXPECT_EQ(decode_image(file, "a.png").rgb, image.rgb) << width << " x " << height;
      Bytes cut = file;
      cut.resize(cut.size() - 12);  // without IEND
      EXPECT_EQ(decode_image(cut, "a.png").rgb, image.rgb) << width << " x " << height;
      cut.resize(cut.size() - 6);  // nor the end of IDAT
      EXPECT_THROW(decode_image(cut, "a.png"), Error) << width << " x " << height;
    }
}

TEST(Png, StopsDecompressingBehindTheLastRow) {
  const Bytes file = png_of_rows(24, 24, 8, PNG_COLOR_TYPE_RGB, Bytes(std::size_t{128} << 20));
  const std::clock_t begin = std::clock();
  EXPECT_EQ(decode_image(file, "a.png").rgb, Bytes(24 * 24 * 3));
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 10);
}

TEST(Png, TooFewRowsAreDamage) {
  for (const std::size_t rows : {0, 1, 8}) {
    const Bytes file = png_of_rows(4, 9, 8, PNG_COLOR_TYPE_RGB, Bytes(rows * 13));
    EXPECT_FAULT(data, "a.png: damaged PNG: ", decode_image(file, "a.png"));
  }
}

}  // namespace
}  // namespace nixie
