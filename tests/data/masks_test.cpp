// Tables whose pictures have masks: PNG files with the class of each pixel, which is cut as the picture is.
#include "nixie/data/files/input_file.h"
#include "nixie/data/files/manifest.h"
#include "nixie/data/image_folder.h"
#include "nixie/data/loader.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

/// A PNG of indices into a palette, packed into as few bits as so many colours need.
Bytes palette_png(const Bytes& indices, std::int64_t width, std::int64_t height, int colours) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = static_cast<png_uint_32>(colours);
  Bytes palette;
  for (int i = 0; i < colours; ++i)
    for (int c = 0; c < 3; ++c) palette.push_back(static_cast<std::uint8_t>((37 * i + 90 * c + 5) % 256));
  Bytes file(1 << 16);
  png_alloc_size_t size = file.size();
  EXPECT_TRUE(png_image_write_to_memory(&image, file.data(), &size, 0, indices.data(), 0, palette.data()))
      << image.message;
  file.resize(size);
  return file;
}

TEST(Masks, AreWhatIsStored) {
  const Bytes levels = {0, 1, 2, 7, 20, 255}, few = {0, 1, 2, 2, 1, 0};
  EXPECT_EQ(decode_mask(png(levels, 3, 2, PNG_FORMAT_GRAY), "m.png").classes, levels);
  EXPECT_EQ(decode_mask(palette_png(few, 3, 2, 3), "m.png").classes, few);
  EXPECT_EQ(decode_mask(palette_png(levels, 3, 2, 256), "m.png").classes, levels);
  EXPECT_EQ(decode_mask(palette_png(few, 3, 2, 3), "m.png").width, 3);
  const auto error = [](const Bytes& bytes) { return error_of(Fault::data, [&] { decode_mask(bytes, "m.png"); }); };
  EXPECT_THAT(error(png(picture(4, 4).rgb, 4, 4)), HasSubstr("m.png: mask: true colours, transparency or 16 bits"));
  EXPECT_THAT(error(png(Bytes(16), 4, 2, PNG_FORMAT_GA)), HasSubstr("expected grey levels or a palette"));
  EXPECT_THAT(error(jpeg(picture(8, 8))), HasSubstr("m.png: mask: JPEG changes classes, expected PNG"));
  Bytes cut = palette_png(few, 3, 2, 3);
  cut.resize(cut.size() - 20);
  EXPECT_THAT(error(cut), HasSubstr("m.png: damaged PNG"));
}

class MasksTest : public testing::Test {
 protected:
  /// A grey picture whose levels are 20 times its mask's classes, and the mask.
  void write_pair(const std::string& name, std::int64_t width, std::int64_t height, const Bytes& classes) {
    Bytes rgb;
    for (const std::uint8_t label : classes) rgb.insert(rgb.end(), 3, static_cast<std::uint8_t>(20 * label));
    write_file(folder_ / ("x/" + name + ".png"), png(rgb, width, height));
    write_file(folder_ / ("masks/" + name + ".png"), palette_png(classes, width, height, 13));
    table_ += fmt::format("x/{0}.png,masks/{0}.png\n", name);
  }
  std::string table() {
    std::ofstream(folder_ / "list.csv") << table_;
    return (folder_ / "list.csv").string();
  }

  TempFolder folder_;
  std::string table_ = "picture,mask\n";
};

// A resumed run tells by it whether its targets are still the same.
TEST_F(MasksTest, ArePartOfTheFingerprint) {
  Bytes classes(8 * 8);
  for (int i = 0; i < 4; ++i) {
    classes[0] = static_cast<std::uint8_t>(i);
    write_pair(std::to_string(i), 8, 8, classes);
  }
  const auto fingerprint = [&] {
    return ImageFolder{.path = table(), .crop = 8, .resize = 8, .holdout = 0.25f}.open().train->fingerprint();
  };
  const std::uint64_t before = fingerprint();
  EXPECT_EQ(fingerprint(), before);
  const std::string lines = table_;
  table_ = "picture,mask\n";
  for (int i = 0; i < 4; ++i) table_ += fmt::format("x/{}.png,masks/{}.png\n", i, 3 - i);
  EXPECT_NE(fingerprint(), before) << "other masks";
  table_ = lines;
  for (int i = 0; i < 3; ++i) write_file(folder_ / fmt::format("masks/{}.png", i), palette_png(classes, 8, 8, 13));
  EXPECT_NE(fingerprint(), before) << "other pixels";
}

TEST_F(MasksTest, MoveWithTheirPictures) {
  for (int i = 0; i < 6; ++i) {
    Bytes classes(10 * 8);
    for (std::size_t p = 0; p < classes.size(); ++p)
      classes[p] = static_cast<std::uint8_t>((p * p + static_cast<std::size_t>(i)) % 13);
    write_pair(std::to_string(i), 10, 8, classes);
  }
  const Splits data =
      ImageFolder{.path = table(), .crop = 8, .resize = 8, .pad = 2, .flip = true, .holdout = 0.34f}.open();
  EXPECT_EQ(data.train->target(), (SampleTarget{Dtype::i32, {8, 8}}));
  EXPECT_EQ(data.train->classes(), 13);
  EXPECT_EQ(data.train->size(), 4);
  EXPECT_EQ(data.test->size(), 2);
  std::set<std::vector<std::int32_t>> seen;
  for (const auto& [half, training] : {std::pair{data.train, true}, {data.test, false}})
    for (std::int64_t epoch = 0; epoch < 12; ++epoch)
      for (std::int64_t i = 0; i < half->size(); ++i) {
        const AugmentKey key{.seed = 5, .epoch = epoch, .training = training};
        const Bytes pixels = sample_bytes(*half, i, key);
        const std::vector<std::int32_t> mask = sample_target<std::int32_t>(*half, i, key);
        for (std::size_t p = 0; p < mask.size(); ++p) ASSERT_EQ(pixels[p], 20 * mask[p]) << epoch << " " << i;
        seen.insert(mask);
      }
  EXPECT_GT(seen.size(), 30u) << "cuts and mirrors";
}

// Within a block of one class the scaled picture has its level, and the scaled mask the class.
TEST_F(MasksTest, AreScaledAsTheirPictures) {
  Bytes classes(96 * 64);
  for (std::size_t p = 0; p < classes.size(); ++p)
    classes[p] = static_cast<std::uint8_t>(1 + p % 96 / 24 + 4 * (p / 96 / 32));
  write_pair("a", 96, 64, classes);
  write_pair("b", 96, 64, classes);
  const std::string file = table();
  for (const Augment& augment : {Augment{}, Augment{.scale = {0.4f, 0.9f}}})
    for (const int resize : {32, 48}) {
      const Splits data =
          ImageFolder{.path = file, .crop = 32, .resize = resize, .flip = true, .augment = augment, .holdout = 0.5f}
              .open();
      int same = 0;
      for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
        const AugmentKey key{.seed = 2, .epoch = epoch, .training = epoch > 0};
        const Bytes pixels = sample_bytes(*data.train, 0, key);
        const std::vector<std::int32_t> mask = sample_target<std::int32_t>(*data.train, 0, key);
        for (std::size_t p = 0; p < mask.size(); ++p) {
          EXPECT_LE(std::abs(pixels[p] - 20 * mask[p]), 50) << "no further than a mix with a neighbour";
          same += pixels[p] == 20 * mask[p];
        }
      }
      EXPECT_GT(same, 0.75 * 8 * 32 * 32) << resize;
    }
}

TEST_F(MasksTest, SayWhatDoesNotFit) {
  write_pair("a", 8, 8, Bytes(64, 3));
  write_pair("b", 8, 8, Bytes(64, 2));
  const ImageFolder options{.path = table(), .crop = 8, .resize = 8, .holdout = 0.5f};
  EXPECT_EQ(options.open().train->classes(), 4);
  EXPECT_THAT(scan_manifest(folder_ / "list.csv", "class").classes, ElementsAre("masks/a.png", "masks/b.png"));
  Bytes wrong(64, 3);
  wrong[8 * 2 + 5] = 77;
  write_file(folder_ / "masks/a.png", png(wrong, 8, 8, PNG_FORMAT_GRAY));
  EXPECT_THAT(options.open().test->class_apart(),
              EndsWith("masks/a.png: the pixel in row 2, column 5 is of class 77, the next below is 3"));
  // 255 is no class.
  write_file(folder_ / "masks/a.png", png(Bytes(64, 255), 8, 8, PNG_FORMAT_GRAY));
  EXPECT_EQ(options.open().train->classes(), 3);
  EXPECT_THAT(options.open().train->labels_without_class(), ElementsAre(255));
  ImageFolder turned = options;
  turned.augment.rotation = 10;
  EXPECT_FAULT(usage, "masks move with their pictures by crops and flips alone", turned.open());
  const auto error = [&] { return error_of(Fault::data, [&] { options.open(); }); };
  write_file(folder_ / "masks/a.png", png(Bytes(32), 4, 8, PNG_FORMAT_GRAY));
  EXPECT_THAT(error(), HasSubstr("x/a.png has 8 x 8 pixels, its mask 4 x 8; make them equal"));
  write_file(folder_ / "masks/a.jpg", jpeg(picture(8, 8)));
  const std::string whole = table_;
  table_ = "picture,mask\nx/a.png,masks/a.jpg\nx/b.png,masks/b.png\n";
  table();
  EXPECT_THAT(error(), HasSubstr("masks/a.jpg: mask: JPEG changes classes, expected PNG"));
  table_ = whole + "x/a.png,masks/none.png\n";
  table();
  EXPECT_THAT(error(), HasSubstr("list.csv:4: "));
  EXPECT_THAT(error(), HasSubstr("masks/none.png does not exist; expected a row"));
  fs::create_symlink("none.png", folder_ / "masks/none.png");
  EXPECT_THAT(error(), HasSubstr("list.csv:4: "));
  EXPECT_THAT(error(), HasSubstr("masks/none.png cannot be read: Too many levels of symbolic links; check the path"));
}

// A mask that is replaced while a run goes on is found when it is read, not by a loss that is no number.
TEST_F(MasksTest, ThatChangeWhileTheyAreReadAreRefused) {
  for (const char* name : {"a", "b"}) write_pair(name, 8, 6, Bytes(48, 2));
  const auto data = ImageFolder{.path = table(), .crop = 6, .resize = 6, .holdout = 0.5f}.open().test;
  const std::string mask = data->target_place(0),
                    picture = (folder_ / ("x/" + fs::path(mask).filename().string())).string();
  const auto error = [&] {
    Loader loader(data, {.batch = 1, .threads = 1}, 0, false);
    return error_of(Fault::data, [&] { loader.next(); });
  };
  EXPECT_EQ(error(), "no error");
  const Bytes was = read_file(mask, kMaxImageFile), picture_was = read_file(picture, kMaxImageFile);
  struct Case {
    std::string file;
    Bytes bytes;
    std::string error;
  };
  const std::string changed =
      " has changed since it was read first; put the old file back and resume, or begin a new run";
  for (const Case& c : {Case{mask, palette_png(Bytes(48, 1), 8, 6, 13), mask + changed},
                        Case{mask, png(Bytes(48, 255), 8, 6, PNG_FORMAT_GRAY), mask + changed},
                        Case{mask, palette_png(Bytes(120, 2), 12, 10, 13), mask + changed},
                        Case{picture, png(Bytes(3 * 48, 9), 8, 6), picture + changed},
                        Case{picture, png(Bytes(3 * 70), 10, 7), picture + changed}}) {
    write_file(c.file, c.bytes);
    EXPECT_EQ(error(), c.error);
    write_file(mask, was);
    write_file(picture, picture_was);
    EXPECT_EQ(error(), "no error") << "the old files are back";
  }
  // Where it has not been read yet, its size tells.
  const auto unread = ImageFolder{.path = table(), .crop = 6, .resize = 6, .holdout = 0.5f}.open().test;
  write_file(picture, png(Bytes(3 * 70), 10, 7));
  Loader loader(unread, {.batch = 1, .threads = 1}, 0, false);
  EXPECT_FAULT(
      data,
      testing::Eq(picture +
                  " has 10 x 7 pixels, when the data were opened it had 8 x 6: it changed since; open the data again"),
      loader.next());
}

}  // namespace
}  // namespace nixie
