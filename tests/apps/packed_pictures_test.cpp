// Pictures and what trainer data makes of them: their orientation, and the crops of packed ones.
#include "nixie/data/image_folder.h"
#include "nixie/data/packed.h"
#include "nixie/tests/apps/pets_folder.h"
#include "nixie/tests/data/exif.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

using PackedPictures = PetsFolder;

/// Marked with the EXIF orientation 6: inspect counts them, and packed samples are upright, as predictions will be.
TEST_F(PackedPictures, PicturesAreTurnedUpright) {
  for (int i = 0; i < 4; ++i)
    write_file(folder_ / fmt::format("pets/dog/{}.jpg", i), with_exif_in_jpeg(jpeg(picture(40, 30, 0.3 * i)), exif(6)));
  EXPECT_THAT(data("inspect pets").output,
              HasSubstr("4 of 20 pictures are turned by their EXIF orientation (data.image_folder.upright)\n"));
  for (const bool upright : {true, false}) {
    const std::string packed = path(upright ? "upright" : "stored");
    const Ran ran =
        data(fmt::format("pack {} {} --side 24 --set data.image_folder.upright={}", path("pets"), packed, upright));
    ASSERT_EQ(ran.code, 0) << ran.output;
    const Splits source = ImageFolder{.path = path("pets"), .crop = 24, .resize = 24, .upright = upright}.open(),
                 data = Packed{.path = packed}.open();
    for (std::int64_t i = 0; i < source.train->size(); ++i)
      EXPECT_EQ(sample_bytes(*source.train, i), sample_bytes(*data.train, i)) << i;
    EXPECT_EQ(data.train->preparation().upright, upright);
  }
}

/// The room on both sides is halved, and halves go to the even number.
TEST_F(PackedPictures, PackedEvaluationCropsAreThoseOfPictures) {
  pack_pets(12);
  const Splits whole = Packed{.path = path("packed")}.open();
  const Bytes stored = sample_bytes(*whole.test, 0);
  Image image{12, 12, std::vector<std::uint8_t>(stored.size())};
  for (std::size_t i = 0; i < 144; ++i)
    for (std::size_t c = 0; c < 3; ++c) image.rgb[3 * i + c] = stored[144 * c + i];
  for (int crop = 1; crop <= 12; ++crop) {
    const Bytes sample = sample_bytes(*Packed{.path = path("packed"), .crop = crop}.open().test, 0);
    Bytes expected(sample.size());
    cut_bytes(image, centre_window(image, 12, crop, crop), 3, expected);
    EXPECT_EQ(sample, expected) << crop;
  }
}

}  // namespace
}  // namespace nixie
