// Orientation: all eight in each format, against the sides that the EXIF standard names, and hostile blocks.
#include "nixie/data/pictures/orientation.h"

#include "nixie/data/files/input_file.h"
#include "nixie/data/image_folder.h"
#include "nixie/tests/data/exif.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

/// The picture that is seen, from the visible sides that row 0 and column 0 of the stored one are (CIPA DC-008, 4.6.4).
Image seen(const Image& stored, int orientation) {
  constexpr const char* kSides[] = {"",         "top left",  "top right",    "bottom right", "bottom left",
                                    "left top", "right top", "right bottom", "left bottom"};
  const std::string sides = kSides[orientation], row = sides.substr(0, sides.find(' ')),
                    column = sides.substr(sides.find(' ') + 1);
  const bool swaps = row == "left" || row == "right";
  Image image{swaps ? stored.height : stored.width, swaps ? stored.width : stored.height, Bytes(stored.rgb.size())};
  for (std::int64_t y = 0; y < stored.height; ++y)
    for (std::int64_t x = 0; x < stored.width; ++x) {
      std::int64_t across = 0, down = 0;
      for (const auto& [side, at] : {std::pair(row, y), std::pair(column, x)}) {
        if (side == "top") down = at;
        if (side == "bottom") down = image.height - 1 - at;
        if (side == "left") across = at;
        if (side == "right") across = image.width - 1 - at;
      }
      for (std::int64_t c = 0; c < 3; ++c)
        image.rgb[static_cast<std::size_t>((down * image.width + across) * 3 + c)] =
            stored.rgb[static_cast<std::size_t>((y * stored.width + x) * 3 + c)];
    }
  return image;
}

TEST(Orientation, TurnsAllEight) {
  const Image image = picture(70, 41);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(turned(image.rgb, 70, 41, 3, orientation), seen(image, orientation).rgb) << orientation;
  }
}

TEST(Orientation, IsReadInEveryFormat) {
  const Image image = picture(14, 9);
  const struct {
    const char* title;
    Bytes plain;
    Bytes (*mark)(const Bytes&, const Bytes&);
  } formats[] = {{"JPEG", jpeg(image), with_exif_in_jpeg},
                 {"PNG", png(image), with_exif_in_png},
                 {"PNG, behind its pixels", png(image), with_exif_behind_pixels}};
  for (const auto& [title, plain, mark] : formats)
    for (int orientation = 1; orientation <= 8; ++orientation)
      for (const bool is_little_endian : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", title, orientation, is_little_endian));
        const Bytes file = mark(plain, exif(orientation, is_little_endian));
        const Image stored = decode_image(plain, "a"), expected = seen(stored, orientation),
                    upright = decode_image(file, "a");
        EXPECT_EQ(upright.width, expected.width);
        EXPECT_EQ(upright.rgb, expected.rgb);
        EXPECT_EQ(image_size(file, "a"), (std::array{expected.width, expected.height}));
        EXPECT_EQ(image_size(file, "a", false), (std::array{stored.width, stored.height}));
        EXPECT_EQ(decode_image(file, "a", {.upright = false}).rgb, stored.rgb);
        EXPECT_EQ(is_turned(file), orientation != 1);
      }
}

TEST(Orientation, IsThatOfTheReducedPictureToo) {
  const Bytes plain = jpeg(picture(321, 203)), file = with_exif_in_jpeg(plain, exif(6));
  for (const std::int64_t side : {200, 100, 50, 20}) {
    const Image reduced = decode_image(plain, "a", {.least_side = side}),
                upright = decode_image(file, "a", {.least_side = side});
    EXPECT_EQ(upright.rgb, seen(reduced, 6).rgb) << side;
  }
}

TEST(Orientation, BlocksThatSayNothingAreUpright) {
  const Bytes plain = jpeg(picture(14, 9)), good = exif(6, true);
  const auto changed = [&](std::size_t at, Bytes to) {
    Bytes block = good;
    std::copy(to.begin(), to.end(), block.begin() + static_cast<std::ptrdiff_t>(at));
    return block;
  };
  Bytes cut = good;
  cut.resize(12);
  const struct {
    const char* title;
    Bytes block;
  } cases[] = {{"nothing", {}},
               {"no TIFF", changed(0, {'X', 'X'})},
               {"0", exif(0)},
               {"9", exif(9)},
               {"another type", changed(12, {4, 0})},
               {"another tag", changed(10, {0x13, 1})},
               {"a directory beyond the end", changed(4, {0xff, 0xff, 0xff, 0xff})},
               {"no entry", changed(8, {0, 0})},
               {"cut off", cut}};
  for (const auto& each : cases) {
    EXPECT_EQ(orientation_of(with_exif_in_jpeg(plain, each.block)), 1) << each.title;
    EXPECT_EQ(orientation_of(with_exif_in_png(png(picture(3, 3)), each.block)), 1) << each.title;
  }
  EXPECT_EQ(orientation_of(with_exif_in_jpeg(plain, changed(8, {0xff, 0xff}))), 6) << "more entries than there are";
}

TEST(Orientation, HostileBlocksAreHarmless) {
  std::mt19937 random(3);
  const Bytes plain = png(picture(5, 4)), good = exif(6, true);
  for (int round = 0; round < 3000; ++round) {
    Bytes file = round % 2 == 0 ? with_exif_in_png(plain, good) : with_exif_in_jpeg(jpeg(picture(5, 4)), good);
    const std::size_t first = round % 2 == 0 ? 33 : 2;
    for (int change = 0; change < 3; ++change) file[first + random() % 50] = static_cast<std::uint8_t>(random());
    if (round % 3 == 0) file.resize(random() % file.size());
    const int orientation = orientation_of(file);
    EXPECT_TRUE(orientation >= 1 && orientation <= 8);
  }
}

class UprightFolder : public testing::Test {
 protected:
  /// A class of one JPEG with orientation 6, and one of the PNG that is seen.
  UprightFolder() {
    const Bytes plain = jpeg(picture(40, 28)), marked = with_exif_in_jpeg(plain, exif(6));
    for (const char* half : {"train", "val"}) {
      write_file(folder_ / half / "marked/a.jpg", marked);
      write_file(folder_ / half / "seen/a.png", png(seen(decode_image(plain, "a"), 6)));
      write_file(folder_ / half / "stored/a.png", png(decode_image(plain, "a")));
    }
  }
  TempFolder folder_;
};

TEST_F(UprightFolder, SamplesAreThoseOfThePictureThatIsSeen) {
  const ImageFolder options{.path = folder_.path(), .crop = 20, .resize = 24};
  const Splits upright = options.open();
  ImageFolder other = options;
  other.upright = false;
  const Splits stored = other.open();
  for (std::int64_t epoch = 0; epoch < 5; ++epoch)
    for (const bool training : {false, true}) {
      const AugmentKey key{.seed = 1, .epoch = epoch, .training = training};
      if (!training) {
        EXPECT_EQ(sample_bytes(*upright.train, 0, key), sample_bytes(*upright.train, 1, key));
        EXPECT_EQ(sample_bytes(*stored.train, 0, key), sample_bytes(*stored.train, 2, key));
      }
      EXPECT_EQ(sample_bytes(*upright.train, 1, key), sample_bytes(*stored.train, 1, key))
          << "a picture without a mark";
    }
  EXPECT_TRUE(upright.train->preparation().upright);
  EXPECT_FALSE(stored.train->preparation().upright);
}

// A crop is drawn of the picture that is seen: the same one as of a folder that holds that picture in its place.
TEST_F(UprightFolder, CropsAreDrawnOfThePictureThatIsSeen) {
  TempFolder other;
  for (const char* half : {"train", "val"})
    write_file(other / half / "marked/a.png", read_file(folder_ / half / "seen/a.png", 1 << 20));
  for (const Augment& augment : {Augment{}, Augment{.scale = {0.2f, 1.0f}}}) {
    const ImageFolder options{.path = folder_.path(), .crop = 20, .resize = 24, .flip = true, .augment = augment};
    ImageFolder of_seen = options;
    of_seen.path = other.path();
    const Splits marked = options.open(), seen_data = of_seen.open();
    for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
      const AugmentKey key{.seed = 1, .epoch = epoch, .training = true};
      EXPECT_EQ(sample_bytes(*marked.train, 0, key), sample_bytes(*seen_data.train, 0, key)) << epoch;
    }
  }
}

TEST_F(UprightFolder, AMaskIsTurnedByItsOwnMark) {
  const Image stored = decode_image(read_file(folder_ / "train/marked/a.jpg", 1 << 20), "a", {.upright = false});
  Bytes levels;
  for (std::int64_t i = 0; i < stored.width * stored.height; ++i) levels.push_back(static_cast<std::uint8_t>(i % 3));
  const Bytes mask = png(levels, stored.width, stored.height, PNG_FORMAT_GRAY);
  const Mask upright = decode_mask(with_exif_in_png(mask, exif(6)), "m");
  EXPECT_EQ(upright.classes, turned(levels, stored.width, stored.height, 1, 6));
  EXPECT_EQ(upright.width, stored.height);
  EXPECT_EQ(decode_mask(with_exif_in_png(mask, exif(6)), "m", {.upright = false}).classes, levels);
  EXPECT_EQ(decode_mask(mask, "m").classes, levels);
  // A picture with a mark, and a mask of the stored one without: they do not fit each other.
  write_file(folder_ / "masks/a.png", mask);
  std::ofstream(folder_ / "list.csv") << "picture,mask\ntrain/marked/a.jpg,masks/a.png\nval/marked/a.jpg,masks/a.png\n";
  const ImageFolder options{.path = (folder_ / "list.csv"), .crop = 20};
  EXPECT_FAULT(data, "28 x 40 pixels, its mask 40 x 28", options.open());
  write_file(folder_ / "masks/a.png", with_exif_in_png(mask, exif(6)));
  EXPECT_EQ(options.open().train->size(), 1);
}

}  // namespace
}  // namespace nixie
