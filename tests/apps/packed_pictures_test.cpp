// Pictures and what trainer data makes of them: their orientation, and the crops of packed ones.
#include "nixie/data/image_folder.h"
#include "nixie/data/packed.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/exif.h"

namespace nixie {
namespace {

/// Folders `cat` and `dog` with ten pictures each, of several sizes.
class PackedPictures : public testing::Test {
 protected:
  PackedPictures() {
    for (int i = 0; i < 10; ++i) {
      write_file(folder_ / fmt::format("pets/cat/{}.png", i), png(picture(24 + i, 20, i)));
      write_file(folder_ / fmt::format("pets/dog/{}.jpg", i), jpeg(picture(30, 40 + i, 0.3 * i)));
    }
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Ran data(const std::string& arguments) const { return run_program("trainer data " + arguments); }

  TempFolder folder_;
};

/// Marked with the EXIF orientation 6: inspect counts them, and packed samples are upright, as predictions will be.
TEST_F(PackedPictures, PicturesAreTurnedUpright) {
  for (int i = 0; i < 4; ++i)
    write_file(folder_ / fmt::format("pets/dog/{}.jpg", i), with_exif_in_jpeg(jpeg(picture(40, 30, 0.3 * i)), exif(6)));
  EXPECT_THAT(data("inspect " + path("pets")).output,
              HasSubstr("4 of 20 pictures are turned by their EXIF orientation (data.image_folder.upright)\n"));
  for (const bool upright : {true, false}) {
    const std::string packed = path(upright ? "upright" : "stored");
    const Ran ran =
        data(fmt::format("pack {} {} --side 24 --set data.image_folder.upright={}", path("pets"), packed, upright));
    ASSERT_EQ(ran.code, 0) << ran.output;
    const Splits source = ImageFolder{.path = path("pets"), .crop = 24, .resize = 24, .upright = upright}.open(),
                 data = Packed{.path = packed}.open();
    std::vector<std::uint8_t> expected(3 * 24 * 24), found(expected.size());
    for (std::int64_t i = 0; i < source.train->size(); ++i) {
      source.train->bytes()->load_bytes(i, {}, expected);
      data.train->bytes()->load_bytes(i, {}, found);
      EXPECT_EQ(expected, found) << i;
    }
    EXPECT_EQ(data.train->preparation().upright, upright);
  }
}

/// The room on both sides is halved, and halves go to the even number.
TEST_F(PackedPictures, PackedEvaluationCropsAreThoseOfPictures) {
  ASSERT_EQ(data("pack " + path("pets") + " " + path("packed") + " --side 12").code, 0);
  const Splits whole = Packed{.path = path("packed")}.open();
  std::vector<std::uint8_t> stored(3 * 144);
  whole.test->bytes()->load_bytes(0, {}, stored);
  Image image{12, 12, std::vector<std::uint8_t>(stored.size())};
  for (std::size_t i = 0; i < 144; ++i)
    for (std::size_t c = 0; c < 3; ++c) image.rgb[3 * i + c] = stored[144 * c + i];
  for (int crop = 1; crop <= 12; ++crop) {
    const auto size = static_cast<std::size_t>(3 * crop * crop);
    std::vector<std::uint8_t> sample(size), expected(size);
    Packed{.path = path("packed"), .crop = crop}.open().test->bytes()->load_bytes(0, {}, sample);
    cut_bytes(image, centre_window(image, 12, crop, crop), 3, expected);
    EXPECT_EQ(sample, expected) << crop;
  }
}

}  // namespace
}  // namespace nixie
