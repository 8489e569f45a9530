// Decoding against what was encoded, resampling against its definition in doubles, and hostile files.
#include "nixie/data/files/window.h"

#include <ctime>

#include "nixie/tests/data/pictures.h"

namespace nixie {
namespace {

int largest_difference(const Bytes& a, const Bytes& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(Image, DecodesEveryKindOfJpeg) {
  const Image image = picture(50, 37);
  Bytes grey_values;  // the luma that a grey JPEG keeps
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) {
    const double luma = 0.299 * image.rgb[i] + 0.587 * image.rgb[i + 1] + 0.114 * image.rgb[i + 2];
    for (int c = 0; c < 3; ++c) grey_values.push_back(static_cast<std::uint8_t>(std::lround(luma)));
  }
  const struct {
    const char* title;
    Bytes bytes;
    const Bytes& expected;
    int tolerance;
  } cases[] = {{"4:4:4", jpeg(image), image.rgb, 9},
               {"4:2:0", jpeg(image, TJSAMP_420), image.rgb, 24},
               {"progressive", jpeg(image, TJSAMP_444, TJFLAG_PROGRESSIVE), image.rgb, 9},
               {"grey", jpeg(image, TJSAMP_GRAY), grey_values, 4},
               {"CMYK", cmyk_jpeg(image), image.rgb, 10},
               {"bytes behind the end", jpeg(image) + Bytes(100, 7), image.rgb, 9}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.title);
    const Image decoded = decode_image(each.bytes, "a.jpg");
    EXPECT_EQ(decoded.width, 50);
    EXPECT_EQ(decoded.height, 37);
    EXPECT_LE(largest_difference(decoded.rgb, each.expected), each.tolerance);
  }
}

TEST(Image, DecodesAtAReducedSizeThatStillSuffices) {
  const Bytes bytes = jpeg(picture(320, 200));
  const struct {
    std::int64_t least_side, width, height;
  } cases[] = {{201, 320, 200}, {101, 320, 200}, {100, 160, 100}, {50, 80, 50},
               {26, 80, 50},    {25, 40, 25},    {3, 40, 25}};
  for (const auto& each : cases) {
    const Image image = decode_image(bytes, "a.jpg", {.least_side = each.least_side});
    EXPECT_EQ(image.width, each.width) << each.least_side;
    EXPECT_EQ(image.height, each.height) << each.least_side;
    EXPECT_EQ(static_cast<std::int64_t>(image.rgb.size()), 3 * each.width * each.height);
  }
}

TEST(Image, DecodesEveryKindOfPng) {
  const Image image = picture(13, 9);
  EXPECT_EQ(decode_image(png(image), "a.png").rgb, image.rgb);

  const Image grey = decode_image(png({0, 100, 255, 7}, 2, 2, PNG_FORMAT_GRAY), "a.png");
  EXPECT_EQ(grey.rgb, (Bytes{0, 0, 0, 100, 100, 100, 255, 255, 255, 7, 7, 7}));

  const Bytes pixels{10, 20, 30, 255, 10, 20, 30, 0};
  const Image alpha = decode_image(png(pixels, 2, 1, PNG_FORMAT_RGBA), "a.png");
  EXPECT_EQ(alpha.rgb, (Bytes{10, 20, 30, 255, 255, 255})) << "a transparent pixel shows the white below";
}

/// The definition: every output pixel is the mean of the input under a triangle around its centre.
double reference_pixel(const Image& image, std::int64_t short_side, std::int64_t x, std::int64_t y, int channel) {
  const auto [width, height] = covering_size(image, short_side, short_side);
  const double across = static_cast<double>(image.width) / static_cast<double>(width),
               down = static_cast<double>(image.height) / static_cast<double>(height);
  const double cx = (static_cast<double>(x) + 0.5) * across, cy = (static_cast<double>(y) + 0.5) * down;
  double sum = 0, weights = 0;
  for (std::int64_t v = 0; v < image.height; ++v)
    for (std::int64_t u = 0; u < image.width; ++u) {
      const double wx = 1 - std::abs(static_cast<double>(u) + 0.5 - cx) / std::max(1.0, across),
                   wy = 1 - std::abs(static_cast<double>(v) + 0.5 - cy) / std::max(1.0, down);
      if (wx <= 0 || wy <= 0) continue;
      sum += wx * wy * image.rgb[static_cast<std::size_t>((v * image.width + u) * 3 + channel)];
      weights += wx * wy;
    }
  return sum / weights;
}

TEST(Image, WindowsEqualTheDefinition) {
  std::mt19937 random(3);
  const struct {
    std::int64_t width, height, short_side, crop, left, top;
  } cases[] = {{40, 30, 16, 12, 3, 2},  {30, 47, 16, 16, 0, 9}, {5, 4, 20, 17, 8, 3}, {12, 12, 12, 12, 0, 0},
               {1, 1, 6, 6, 0, 0},      {64, 3, 6, 6, 60, 0},   {33, 65, 7, 5, 1, 8}, {12, 12, 12, 12, -3, 4},
               {30, 20, 14, 14, 9, -5}, {9, 9, 6, 6, 7, 0}};
  for (const auto& each : cases)
    for (const bool mirrored : {false, true}) {
      Image image{each.width, each.height, Bytes(static_cast<std::size_t>(3 * each.width * each.height))};
      for (auto& byte : image.rgb) byte = static_cast<std::uint8_t>(random());
      const auto [width, height] = covering_size(image, each.short_side, each.short_side);
      const auto cut = cut_window(
          image,
          {{0, 0, each.width, each.height}, width, height, {each.left, each.top, each.crop, each.crop}, mirrored});
      ASSERT_EQ(static_cast<std::int64_t>(cut.size()), 3 * each.crop * each.crop);
      for (int c = 0; c < 3; ++c)
        for (std::int64_t y = 0; y < each.crop; ++y)
          for (std::int64_t x = 0; x < each.crop; ++x) {
            const std::int64_t column = each.left + (mirrored ? each.crop - 1 - x : x), row = each.top + y;
            const bool is_beyond = column < 0 || column >= width || row < 0 || row >= height;
            EXPECT_NEAR(cut[static_cast<std::size_t>((c * each.crop + y) * each.crop + x)],
                        is_beyond ? 0 : reference_pixel(image, each.short_side, column, row, c), 1e-3);
          }
    }
}

// A box of an image gives what the box alone, as an image of its own, gives.
TEST(Image, ABoxIsReadAsAnImageOfItsOwn) {
  const Image whole = picture(40, 30);
  const Box box{7, 5, 20, 14};
  Image alone{box.width, box.height, {}};
  for (std::int64_t y = 0; y < box.height; ++y)
    for (std::int64_t i = 0; i < 3 * box.width; ++i)
      alone.rgb.push_back(whole.rgb[static_cast<std::size_t>(((box.top + y) * 40 + box.left) * 3 + i)]);
  const Box part{2, 1, 9, 8};
  EXPECT_EQ(cut_window(whole, {box, 12, 11, part, true}), cut_window(alone, {{0, 0, 20, 14}, 12, 11, part, true}));
}

// Sizes and corners as torchvision 0.19 computes them: Resize(256), CenterCrop(224).
TEST(Image, TheCentreIsWhereTorchvisionCutsIt) {
  const struct {
    std::int64_t width, height, scaled_width, scaled_height, left, top;
  } cases[] = {{500, 375, 341, 256, 58, 16}, {375, 500, 256, 341, 16, 58}, {10, 10, 256, 256, 16, 16},
               {501, 333, 385, 256, 80, 16}, {640, 427, 383, 256, 80, 16}, {300, 200, 384, 256, 80, 16}};
  for (const auto& each : cases) {
    const Window window = centre_window({each.width, each.height, {}}, 256, 224, 224);
    EXPECT_EQ(window.width, each.scaled_width) << each.width;
    EXPECT_EQ(window.height, each.scaled_height) << each.width;
    EXPECT_EQ(window.part.left, each.left) << each.width;
    EXPECT_EQ(window.part.top, each.top) << each.width;
  }
  // A sample that is no square: 40 x 20 of a picture scaled to cover 60 x 30.
  const Window wide = centre_window({100, 100, {}}, 30, 40, 20);
  EXPECT_EQ(wide.width, 60);
  EXPECT_EQ(wide.height, 60);
  EXPECT_EQ(wide.part.left, 10);
  EXPECT_EQ(wide.part.top, 20);
}

/// A PNG that announces a size; the data behind it is one row of zeros.
Bytes png_of_size(std::uint32_t width, std::uint32_t height) {
  return test::png_of_rows(width, height, 8, PNG_COLOR_TYPE_RGB, Bytes(64));
}

TEST(Image, SixteenBitsAreAsBrightAsEight) {
  const Image image = picture(13, 9);
  Bytes rows;
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    if (i % (13 * 3) == 0) rows.push_back(0);
    rows.push_back(image.rgb[i]), rows.push_back(image.rgb[i]);  // 257 times the byte is the same share of the largest
  }
  EXPECT_LE(
      largest_difference(decode_image(test::png_of_rows(13, 9, 16, PNG_COLOR_TYPE_RGB, rows), "a.png").rgb, image.rgb),
      1);
}

/// A JPEG whose header announces another size than its data has.
Bytes jpeg_of_size(std::uint16_t width, std::uint16_t height) {
  Bytes bytes = jpeg(picture(16, 16));
  for (std::size_t i = 0; i + 9 < bytes.size(); ++i)
    if (bytes[i] == 0xff && bytes[i + 1] == 0xc0) {
      bytes[i + 5] = static_cast<std::uint8_t>(height >> 8), bytes[i + 6] = static_cast<std::uint8_t>(height);
      bytes[i + 7] = static_cast<std::uint8_t>(width >> 8), bytes[i + 8] = static_cast<std::uint8_t>(width);
      return bytes;
    }
  ADD_FAILURE() << "no frame header";
  return bytes;
}

TEST(Image, RefusesHostileFilesInOneLine) {
  Bytes cut_jpeg = jpeg(picture(60, 60)), cut_png = png(picture(60, 60));
  const Bytes jpeg_header(cut_jpeg.begin(), cut_jpeg.begin() + 30);
  cut_jpeg.resize(cut_jpeg.size() * 2 / 3);
  cut_png.resize(cut_png.size() / 2);
  const struct {
    const char* title;
    Bytes bytes;
    const char* expected;
  } cases[] = {{"nothing", {}, "neither JPEG nor PNG nor WebP"},
               {"GIF", {'G', 'I', 'F', '8', '9', 'a'}, "6 bytes: neither JPEG nor PNG nor WebP"},
               {"JPEG cut", cut_jpeg, "damaged JPEG: Premature end"},
               {"JPEG cut in its header", jpeg_header, "damaged JPEG: Premature end"},
               {"JPEG of three bytes", {0xff, 0xd8, 0xff}, "damaged JPEG: Premature end"},
               {"JPEG bomb", jpeg_of_size(65500, 65500), "65500 x 65500 pixels, at most 256 million are read"},
               {"JPEG of more than it has", jpeg_of_size(3000, 3000), "damaged JPEG"},
               {"PNG cut", cut_png, "damaged PNG"},
               {"PNG of its magic", {0x89, 'P', 'N', 'G', 13, 10, 26, 10}, "damaged PNG"},
               {"PNG bomb", png_of_size(50000, 50000), "50000 x 50000 pixels, at most 256 million are read"},
               {"PNG of 2^31", png_of_size(0x80000000u, 1), "damaged PNG"},
               {"PNG of 2^31 - 1", png_of_size(0x7fffffffu, 0x7fffffffu), "damaged PNG"},
               {"PNG of more than it has", png_of_size(4000, 4000), "damaged PNG"},
               {"PNG of no pixels", png_of_size(0, 10), "damaged PNG"}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.title);
    const std::clock_t begin = std::clock();  // processor time: machines are shared
    const std::string line = error_of(Fault::data, [&] { decode_image(each.bytes, "folder/file"); });
    EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);
    EXPECT_THAT(line, HasParts(StartsWith("folder/file: "), each.expected));
    EXPECT_TRUE(line.find("; replace or remove the file") != std::string::npos ||
                line.find("; scale the picture down, or raise data.image_folder.megapixels") != std::string::npos)
        << line;
  }
}

// A decoder that goes from file to file keeps what the last one left: tables, or the state after an error.
TEST(Image, NoFileChangesHowTheNextIsRead) {
  const Bytes good = jpeg(picture(40, 30));
  const std::vector<std::uint8_t> expected = decode_image(good, "good").rgb;
  Bytes tables(good.begin(), good.end());  // the same without its quantization tables: it cannot be read on its own
  for (std::size_t i = 2; i + 3 < tables.size() && tables[i + 1] != 0xda;) {
    const std::size_t length = 2 + std::size_t{tables[i + 2]} * 256 + tables[i + 3];
    if (tables[i + 1] == 0xdb)
      tables.erase(tables.begin() + static_cast<std::ptrdiff_t>(i),
                   tables.begin() + static_cast<std::ptrdiff_t>(i + length));
    else
      i += length;
  }
  const auto outcome = [](const Bytes& bytes) {
    return error_of(Fault::data, [&] { decode_image(bytes, "file", {.least_side = 1}); });
  };
  const std::string alone = outcome(tables);
  EXPECT_NE(alone, "no error");
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Bytes bad = good;
    bad[20 + random() % (bad.size() - 20)] = static_cast<std::uint8_t>(random());
    bad.resize(20 + random() % (bad.size() - 20));
    static_cast<void>(outcome(bad));
    ASSERT_EQ(decode_image(good, "good").rgb, expected) << "round " << round;
    ASSERT_EQ(outcome(tables), alone) << "round " << round;
  }
}

void try_mutants(int count) {
  const Image image = picture(40, 30);
  const auto read = [](const Bytes& bytes) {
    const Image decoded = decode_image(bytes, "mutant");
    EXPECT_EQ(static_cast<std::int64_t>(decoded.rgb.size()), 3 * decoded.width * decoded.height);
  };
  for (const Bytes& good :
       {jpeg(image, TJSAMP_420), jpeg(image, TJSAMP_444, TJFLAG_PROGRESSIVE), cmyk_jpeg(image), png(image)})
    EXPECT_GT(refused_mutants(good, count, read), 0.3) << "at least what is cut off";
}

TEST(Image, SurvivesMutants) { try_mutants(1500); }
TEST(Image, SurvivesMoreMutantsLong) { try_mutants(10000); }

// An image that is not scaled is copied: the same bytes as by way of the filter.
TEST(Window, BytesAreThoseOfThePixels) {
  const Image image = picture(23, 17);
  for (const bool mirrored : {false, true})
    for (const std::int64_t channels : {1, 3})
      for (const Window& window : {Window{{0, 0, 23, 17}, 23, 17, {3, 2, 11, 9}, mirrored},
                                   Window{{4, 5, 12, 10}, 12, 10, {0, 0, 12, 10}, mirrored},
                                   Window{{4, 5, 12, 10}, 31, 29, {2, 7, 20, 11}, mirrored},
                                   Window{{0, 0, 23, 17}, 23, 17, {-3, 10, 9, 11}, mirrored},
                                   Window{{0, 0, 23, 17}, 23, 17, {15, -2, 9, 11}, mirrored},
                                   Window{{0, 0, 23, 17}, 11, 8, {1, 1, 9, 6}, mirrored}}) {
        const auto size = static_cast<std::size_t>(channels * window.part.width * window.part.height);
        Bytes direct(size), filtered(size);
        cut_bytes(image, window, channels, direct);
        round_pixels(cut_window(image, window), channels, filtered);
        EXPECT_EQ(direct, filtered) << window.width << " " << channels << " " << mirrored;
      }
}

}  // namespace
}  // namespace nixie
