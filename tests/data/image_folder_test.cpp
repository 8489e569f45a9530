// ImageFolder: which files make which half, what a sample is made of, and folders that are not what they should be.
#include "nixie/data/image_folder.h"

#include <sys/stat.h>

#include "nixie/data/loader.h"
#include "nixie/tests/data/pictures.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

Image plain(std::int64_t width, std::int64_t height, std::uint8_t r, std::uint8_t g, std::uint8_t b) {
  Image image{width, height, {}};
  for (std::int64_t i = 0; i < width * height; ++i) image.rgb.insert(image.rgb.end(), {r, g, b});
  return image;
}

/// Files whose red tells the class and whose green tells the file.
void write_class(const fs::path& folder, int label, int count) {
  for (int i = 0; i < count; ++i)
    write_file(folder / ("image" + std::to_string(i) + ".png"),
               png(plain(10 + i % 7, 12, static_cast<std::uint8_t>(50 * label), static_cast<std::uint8_t>(i), 9)));
}

ImageFolder options(const TempFolder& folder) {
  return {.path = folder.path(), .crop = 8, .resize = 8, .normalize = false, .holdout = 0.25f};
}

/// class -> the files (by their green) that the half holds.
std::map<int, std::set<int>> files_of(const Dataset& dataset) {
  std::map<int, std::set<int>> files;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    const int label = sample_label(dataset, i);
    const std::vector<float> image = sample_values(dataset, i);
    EXPECT_NEAR(image[0] * 255, 50 * label, 1e-3);
    EXPECT_TRUE(files[label].insert(static_cast<int>(std::lround(image[64] * 255))).second) << "a file came twice";
  }
  return files;
}

TEST(ImageFolder, HoldsOutAShareOfEachClass) {
  TempFolder folder;
  write_class(folder / "zebra", 2, 20);
  write_class(folder / "ant", 0, 8);
  write_class(folder / "cat/nested", 1, 3);
  write_class(folder / ".hidden", 4, 3);
  write_file(folder / "ant/notes.txt", {'x'});
  write_file(folder / "ant/.image.png", {'x'});
  const Splits splits = options(folder).open();
  EXPECT_EQ(splits.train->class_names(), (std::vector<std::string>{"ant", "cat", "zebra"}));
  auto train = files_of(*splits.train), test = files_of(*splits.test);
  const std::size_t sizes[] = {8, 3, 20}, held[] = {2, 1, 5};
  for (int label = 0; label < 3; ++label) {
    EXPECT_EQ(test[label].size(), held[label]);
    EXPECT_EQ(train[label].size(), sizes[label] - held[label]);
    train[label].merge(test[label]);
    EXPECT_EQ(train[label].size(), sizes[label]) << "no file in both halves";
  }
  EXPECT_EQ(files_of(*options(folder).open().test), files_of(*splits.test)) << "the same every time";
}

// half_sources_test.cpp has the names of halves.
TEST(ImageFolder, HalvesHaveTheSameClasses) {
  TempFolder folder;
  for (const char* name : {"train/c0", "val/c0", "val/c1"}) write_class(folder / name, 0, 3);
  EXPECT_FAULT(data, "classes are not those of", options(folder).open());
}

/// The notes of an opened folder, one after the other.
std::string notes_of(const ImageFolder& folder) {
  std::string all;
  for (const std::string& note : folder.open().notes) all += note + "\n";
  return all;
}

TEST(ImageFolder, PipesAndLostLinksAreLeftOutWithACount) {
  TempFolder folder;
  write_class(folder / "a", 0, 6);
  write_class(folder / "b", 1, 6);
  ASSERT_EQ(::mkfifo((folder / "a/pipe.png").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder / "b/zero.jpg");
  fs::create_symlink("nowhere.png", folder / "b/lost.png");
  fs::create_directory_symlink("..", folder / "b/above");
  fs::create_symlink("circle.png", folder / "b/circle.png");
  fs::create_directory_symlink("circle", folder / "circle");
  EXPECT_EQ(notes_of(options(folder)),
            folder.path().string() +
                ": took 12 pictures, left out 2 entries that are no regular files, 1 links that lead back to a folder "
                "they are in (the first: b/above), 3 links to nothing (the first: b/circle.png)\n");
}

TEST(ImageFolder, CountsTheFilesItDoesNotTake) {
  TempFolder folder;
  write_class(folder / "a", 0, 6);
  write_class(folder / "b", 1, 6);
  for (const char* name : {"a/1.gif", "a/2.GIF", "b/3.tiff", "b/README", "loose.png", "b/.hidden"})
    write_file(folder / name, {'x'});
  EXPECT_EQ(notes_of(options(folder)), folder.path().string() +
                                           ": took 12 pictures, left out 2 .gif files, 1 .tiff files, "
                                           "1 files outside the class folders, 1 files without a suffix\n");
  write_file(folder / "c/1.gif", {'x'});
  EXPECT_FAULT(data, "/c: no .jpg, .png or .webp file (left out 1 .gif files); remove the folder, or convert",
               options(folder).open());
}

TEST(ImageFolder, LimitsGoRoundTheClasses) {
  TempFolder folder;
  for (int label = 0; label < 3; ++label) write_class(folder / fmt::format("c{}", label), label, 12);
  ImageFolder limited = options(folder);
  limited.limit = 7;
  const Splits splits = limited.open();
  EXPECT_EQ(splits.train->size(), 7);
  for (std::int64_t i = 0; i < 7; ++i) EXPECT_EQ(sample_label(*splits.train, i), i % 3);
}

TEST(ImageFolder, TellsJpegFromPngByContentAndMixesSizes) {
  TempFolder folder;
  const Bytes contents[] = {jpeg(plain(90, 40, 200, 100, 50)), png(plain(9, 30, 200, 100, 50)),
                            jpeg(plain(8, 8, 200, 100, 50), TJSAMP_420), cmyk_jpeg(plain(20, 20, 200, 100, 50))};
  int number = 0;
  for (const char* suffix : {".jpg", ".PNG", ".JPEG", ".jpe"})
    for (const Bytes& content : contents) write_file(folder / ("a/" + std::to_string(number++) + suffix), content);
  const Splits splits = options(folder).open();
  EXPECT_EQ(splits.train->size() + splits.test->size(), 16);
  const double expected[] = {200, 100, 50};
  for (const auto& half : {splits.train, splits.test})
    for (std::int64_t i = 0; i < half->size(); ++i) {
      const std::vector<float> image = sample_values(*half, i, {.seed = 3, .epoch = 1, .training = true});
      for (std::size_t k = 0; k < 192; ++k) EXPECT_NEAR(image[k] * 255, expected[k / 64], 4);
    }
}

TEST(ImageFolder, CutsTheCentreToEvaluateAndAnywhereToTrain) {
  TempFolder folder;
  const Image source = picture(60, 24);
  write_file(folder / "a/0.png", png(source));
  write_file(folder / "a/1.png", png(source));
  ImageFolder folder_options = options(folder);
  folder_options.crop = 16;
  folder_options.resize = 20;  // scaled to 50 x 20
  const auto dataset = folder_options.open().train;
  ASSERT_TRUE(dataset->bytes());
  Bytes scaled(3 * 20 * 50);
  cut_bytes(source, {{0, 0, 60, 24}, 50, 20, {0, 0, 50, 20}, false}, 3, scaled);
  const Shape from{3, 20, 50};
  EXPECT_EQ(sample_bytes(*dataset, 0, {.seed = 5, .epoch = 1, .training = false}),
            moved(scaled, from, {3, 16, 16}, {17, 2}));
  EXPECT_GT(moves_of(*dataset, 0, scaled, from, {0, 0}, {34, 4}, 200).size(), 100u);
}

TEST(ImageFolder, CutsAtRandomOutOfThePaddedPicture) {
  TempFolder folder;
  const Image source = picture(12, 12);
  write_file(folder / "a/0.png", png(source));
  write_file(folder / "a/1.png", png(source));
  const ImageFolder padded{.path = folder.path(), .crop = 12, .pad = 2, .normalize = false, .holdout = 0.5f};
  const auto dataset = padded.open().train;
  Bytes stored(3 * 12 * 12);
  cut_bytes(source, centre_window(source, 12, 12, 12), 3, stored);
  EXPECT_EQ(sample_bytes(*dataset, 0), stored) << "evaluation pads nothing, and the picture is scaled to the crop";
  EXPECT_EQ(moves_of(*dataset, 0, stored, {3, 12, 12}, {-2, -2}, {2, 2}, 200).size(), 25u) << "none is mirrored";

  ImageFolder two_crops = padded, too_wide = padded;
  two_crops.augment.scale = {0.5f, 1};
  too_wide.pad = 12;
  EXPECT_FAULT(usage, "two crops", two_crops.open());
  EXPECT_FAULT(usage, "pad is 12", too_wide.open());
}

TEST(ImageFolder, NormalizesAndTurnsGrey) {
  TempFolder folder;
  write_file(folder / "a/0.png", png(plain(8, 8, 200, 100, 50)));
  write_file(folder / "a/1.png", png(plain(8, 8, 200, 100, 50)));
  ImageFolder rgb = options(folder);
  rgb.normalize = true;
  const std::vector<float> image = sample_values(*rgb.open().train, 0);
  EXPECT_NEAR(image[0], (200 / 255.0 - 0.485) / 0.229, 1e-5);
  EXPECT_NEAR(image[64], (100 / 255.0 - 0.456) / 0.224, 1e-5);
  EXPECT_NEAR(image[128], (50 / 255.0 - 0.406) / 0.225, 1e-5);

  ImageFolder grey = rgb;
  grey.channels = 1;
  grey.mean = {0.5f};
  grey.deviation = {0.25f};
  const auto dataset = grey.open().train;
  EXPECT_EQ(dataset->sample_shape(), (Shape{1, 8, 8}));
  EXPECT_NEAR(sample_values(*dataset, 0)[5], (std::round(0.299 * 200 + 0.587 * 100 + 0.114 * 50) / 255 - 0.5) / 0.25,
              1e-5);

  const std::string path = folder.path();
  EXPECT_FAULT(usage, "channels is 2", ImageFolder{.path = path, .channels = 2}.open());
  EXPECT_FAULT(usage, "resize is 7, smaller than crop 8", ImageFolder{.path = path, .crop = 8, .resize = 7}.open());
  EXPECT_FAULT(usage, "expected one per channel", ImageFolder{.path = path, .mean = {0.5f}}.open());
  EXPECT_EQ((ImageFolder{.path = path}.open().train->sample_shape()), (Shape{3, 224, 224}));
}

TEST(ImageFolder, NamesTheDamagedFile) {
  TempFolder folder;
  write_class(folder / "a", 0, 6);
  Bytes bytes = jpeg(picture(40, 40));
  bytes.resize(bytes.size() / 2);
  for (int i = 0; i < 6; ++i) write_file(folder / ("b/bad" + std::to_string(i) + ".jpg"), bytes);
  Loader loader(options(folder).open().train, {.batch = 4, .threads = 2}, 0, true);
  EXPECT_FAULT(
      data,
      HasParts(StartsWith((folder / "b/bad").string()), "Premature end", "; `damaged: skip` leaves out all such files"),
      read_epoch(loader));

  ImageFolder policy = options(folder);
  policy.damaged = "check";
  const std::string all = error_of(Fault::data, [&] { policy.open(); });
  EXPECT_THAT(all, StartsWith("6 of 12 pictures are damaged, the first: " + (folder / "b/bad0.jpg").string()));
  policy.damaged = "skip";
  EXPECT_FAULT(data, "/b: all its pictures are damaged (the first of 6: ", policy.open());
  write_class(folder / "b", 1, 4);
  const Splits kept = policy.open();
  EXPECT_EQ(kept.train->size() + kept.test->size(), 10);
  EXPECT_EQ(files_of(*kept.train)[1].size() + files_of(*kept.test)[1].size(), 4u);
  EXPECT_THAT(notes_of(policy), HasSubstr("took 10 pictures, left out 6 damaged pictures (the first: "));
  // One that is damaged since says so: `skip` is set already.
  for (int i = 0; i < 6; ++i) fs::remove(folder / ("b/bad" + std::to_string(i) + ".jpg"));
  for (const char* checked : {"check", "skip"}) {
    write_class(folder / "b", 1, 4);
    policy.damaged = checked;
    const Splits opened = policy.open();
    for (const char* name : {"a", "b"})
      for (const auto& file : fs::directory_iterator(folder / name))
        if (file.path().extension() == ".jpg" || file.path().extension() == ".png")
          write_file(file.path(), Bytes(20, 1));
    Loader changed(opened.train, {.batch = 2, .threads = 1}, 0, true);
    EXPECT_FAULT(data, HasParts("; it was whole when the data were opened", Not(HasSubstr("leaves out"))),
                 read_epoch(changed));
    write_class(folder / "a", 0, 6);
  }
  policy.damaged = "ignore";
  EXPECT_EQ(error_of([&] { policy.open(); }), "image_folder: damaged is ignore, expected error, check or skip");
}

TEST(ImageFolder, RefusesFoldersWithNothingInThem) {
  TempFolder folder;
  const auto line = [&] { return error_of(Fault::data, [&] { options(folder).open(); }); };
  EXPECT_THAT(line(), HasSubstr("no class folders"));
  fs::create_directory(folder / "a");
  EXPECT_THAT(line(), HasSubstr("/a: no .jpg, .png or .webp file; remove the folder"));
  write_class(folder / "a", 0, 1);
  EXPECT_THAT(line(), HasSubstr("nothing left to test on"));
  EXPECT_FAULT(data,
               "/nowhere/at all: no such folder; set path to a folder of class folders, a .csv file or a .tar file",
               ImageFolder{.path = "/nowhere/at all"}.open());
}

/// Unpacks an archive of the real data and reads its test half, about `share` of all; skips where it is absent.
void check_real(const std::string& archive, const std::string& inside, std::int64_t samples, double share) {
  const auto file = fs::path(real_data()) / archive;
  if (real_data().empty() || !fs::exists(file)) GTEST_SKIP() << "set NIXIE_TEST_DATA";
  TempFolder folder;
  ASSERT_EQ(std::system(("tar -xf '" + file.string() + "' -C '" + folder.path().string() + "'").c_str()), 0);
  const Splits splits = ImageFolder{.path = (folder / inside).string(), .crop = 32}.open();
  EXPECT_EQ(splits.train->size() + splits.test->size(), samples);
  EXPECT_NEAR(static_cast<double>(splits.test->size()), share * static_cast<double>(samples), 5) << "half per class";
  EXPECT_EQ(splits.train->classes(), 10);
  Loader loader(splits.test, {.batch = 64}, 0, false);
  std::set<int> labels;
  double sum = 0, squares = 0, count = 0;
  while (const Batch* batch = loader.next()) {
    for (const int label : batch->labels.data<std::int32_t>()) labels.insert(label);
    for (const double byte : batch->images.to_vector<double>()) sum += byte, squares += byte * byte, ++count;
  }
  EXPECT_EQ(labels.size(), 10u);
  EXPECT_LT(std::abs(sum / count - 127.5), 80);
  EXPECT_GT(squares / count - sum / count * sum / count, 600);
}

TEST(ImageFolder, ReadsRealSignDigits) { check_real("sign-language-digits.tar", "Dataset", 2062, 0.1); }
TEST(ImageFolder, ReadsRealCifar) { check_real("cifar10-jpeg.tar.xz", "", 60000, 1 / 6.0); }

}  // namespace
}  // namespace nixie
