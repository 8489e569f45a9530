// Mnist: good files in every spelling, and every way in which IDX files can be bad.
#include "nixie/data/mnist.h"

#include <ctime>

#include "nixie/tests/data/samples.h"
#include "nixie/tests/data/support.h"

namespace nixie {
namespace {

constexpr std::uint32_t kImages = 0x803, kLabels = 0x801;

Bytes pixels(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return bytes;
}
Bytes labels(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i % 10);
  return bytes;
}

/// Four good files: 12 training and 5 test images of 4 x 3 pixels.
void write_set(const TempFolder& folder, bool zipped, const std::string& separator = "-") {
  const auto write = [&](const std::string& stem, int dimensions, const Bytes& bytes) {
    const std::string name = stem + separator + "idx" + std::to_string(dimensions) + "-ubyte";
    write_file(folder / (zipped ? name + ".gz" : name), zipped ? gzip(bytes) : bytes);
  };
  write("train-images", 3, big_endian({kImages, 12, 4, 3}) + pixels(144));
  write("train-labels", 1, big_endian({kLabels, 12}) + labels(12));
  write("t10k-images", 3, big_endian({kImages, 5, 4, 3}) + pixels(60));
  write("t10k-labels", 1, big_endian({kLabels, 5}) + labels(5));
}

Splits open_set(const TempFolder& folder) { return Mnist{.path = folder.path()}.open(); }

TEST(Mnist, ReadsPlainAndGzipFiles) {
  for (const bool zipped : {false, true})
    for (const char* separator : {"-", "."}) {
      TempFolder folder;
      write_set(folder, zipped, separator);
      const Splits splits = Mnist{.path = folder.path(), .normalize = false}.open();
      ASSERT_EQ(splits.train->size(), 12);
      ASSERT_EQ(splits.test->size(), 5);
      EXPECT_EQ(splits.train->sample_shape(), (Shape{1, 4, 3}));
      EXPECT_EQ(splits.train->classes(), 10);
      const Bytes expected = pixels(144);
      for (std::int64_t i = 0; i < 12; ++i) {
        const std::vector<float> image = sample_values(*splits.train, i);
        EXPECT_EQ(sample_label(*splits.train, i), i % 10);
        for (std::size_t k = 0; k < 12; ++k)
          EXPECT_FLOAT_EQ(image[k], static_cast<float>(expected[static_cast<std::size_t>(i) * 12 + k]) / 255.0f);
      }
    }
}

TEST(Mnist, NormalizesAndLimits) {
  TempFolder folder;
  write_set(folder, false);
  const Splits splits = Mnist{.path = folder.path(), .limit = 7}.open();
  EXPECT_EQ(splits.train->size(), 7);
  EXPECT_EQ(splits.test->size(), 5);
  const std::vector<float> image = sample_values(*splits.train, 0);
  for (std::size_t k = 0; k < 12; ++k)
    EXPECT_NEAR(image[k], (static_cast<double>(k * 7) / 255 - 0.1307) / 0.3081, 1e-6);
}

TEST(Mnist, ReadsGzipOfSeveralMembers) {
  TempFolder folder;
  write_set(folder, false);
  fs::remove(folder / "train-images-idx3-ubyte");
  const Bytes all = pixels(144);
  write_file(folder / "train-images-idx3-ubyte.gz", gzip(big_endian({kImages, 12, 4, 3})) +
                                                        gzip(Bytes(all.begin(), all.begin() + 50)) +
                                                        gzip(Bytes(all.begin() + 50, all.end())));
  EXPECT_EQ(open_set(folder).train->size(), 12);
}

Bytes good_images() { return big_endian({kImages, 12, 4, 3}) + pixels(144); }
Bytes cut(Bytes bytes, std::size_t drop) {
  bytes.resize(bytes.size() - drop);
  return bytes;
}

TEST(Mnist, RefusesBadFilesInOneLine) {
  const char *images = "train-images-idx3-ubyte", *train_labels = "train-labels-idx1-ubyte";
  const struct {
    const char *title, *file;  // which it replaces
    Bytes content;
    const char* expected;
  } kBadFiles[] = {
      {"empty", images, {}, "at byte 0: the magic number would take 4 bytes"},
      {"wrong magic", images, big_endian({kLabels, 12, 4, 3}) + pixels(144), "magic number 0x801, expected 0x803"},
      {"little endian", train_labels, {1, 8, 0, 0, 12, 0, 0, 0}, "magic number 0x1080000"},
      {"truncated", images, cut(good_images(), 1), "at byte 16: the pixels would take 144"},
      {"truncated header", images, big_endian({kImages, 12, 4}), "the image width"},
      {"longer", images, good_images() + Bytes{0}, "at byte 160: more data"},
      {"no samples", images, big_endian({kImages, 0, 4, 3}), "holds 0 samples"},
      {"2^31 samples", images, big_endian({kImages, 0x80000000, 28, 28}), "2147483648 images"},
      {"2^31 sides", images, big_endian({kImages, 12, 0x80000000, 0x80000000}), "images of 2147483648 x 2147483648"},
      {"zero side", images, big_endian({kImages, 12, 0, 3}), "images of 0 x 3"},
      {"count", train_labels, big_endian({kLabels, 11}) + labels(11), "11 labels for 12 images"},
      {"label", train_labels, big_endian({kLabels, 12}) + cut(labels(12), 1) + Bytes{10},
       "at byte 19: label 10 of sample 11 is not in [0, 9]"},
      {"other size", "t10k-images-idx3-ubyte", big_endian({kImages, 5, 3, 3}) + pixels(45),
       "training images are [1, 4, 3], test images [1, 3, 3]"},
      {"gzip cut", images, cut(gzip(good_images()), 20), "cut off"},
      {"gzip without its checksum", images, cut(gzip(good_images()), 8), "cut off"},
      {"gzip garbage", images, {0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 0xff, 0xff}, "damaged gzip stream"},
      {"gzip tail", images, gzip(good_images()) + Bytes{'x', 'y'}, "trailing garbage"},
      {"gzip of more", images, gzip(good_images() + Bytes(1000)), "more data"},
      {"gzip of a wrong header", images, gzip(big_endian({kImages, 12, 4096, 4096}) + Bytes(100)),
       "would take 201326592 bytes"},
      {"gzip bomb behind", train_labels, gzip(big_endian({kLabels, 12}) + labels(12) + Bytes(1 << 26)), "more data"},
  };
  for (const auto& bad : kBadFiles) {
    SCOPED_TRACE(bad.title);
    TempFolder folder;
    write_set(folder, false);
    write_file(folder / bad.file, bad.content);
    const std::clock_t begin = std::clock();  // processor time: machines are shared
    EXPECT_FAULT(data, HasParts(bad.expected, folder.path()), open_set(folder));
    EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);
  }
}

TEST(Mnist, SaysWhichFileIsMissing) {
  TempFolder folder;
  EXPECT_FAULT(data, "train-images-idx3-ubyte[.gz]: no such file", open_set(folder));
  write_set(folder, true);
  fs::remove(folder / "t10k-labels-idx1-ubyte.gz");
  EXPECT_FAULT(data, "t10k-labels-idx1-ubyte[.gz]: no such file", open_set(folder));
  fs::create_symlink("t10k-labels-idx1-ubyte", folder / "t10k-labels-idx1-ubyte");
  EXPECT_FAULT(data, "Too many levels of", open_set(folder));
  fs::remove(folder / "t10k-labels-idx1-ubyte");
  fs::create_directory(folder / "t10k-labels-idx1-ubyte");
  EXPECT_FAULT(data, "not a regular file", open_set(folder));
}

// Whatever a damaged file gives, it is either a clear refusal or data of the announced shape.
void try_mutants(int count) {
  TempFolder folder;
  write_set(folder, false);
  for (const Bytes& good : {good_images(), gzip(good_images())})
    EXPECT_GT(refused_mutants(good, count,
                              [&](const Bytes& bytes) {
                                write_file(folder / "train-images-idx3-ubyte", bytes);
                                const Splits splits = open_set(folder);
                                for (std::int64_t i = 0; i < splits.train->size(); ++i) sample_values(*splits.train, i);
                                EXPECT_EQ(splits.train->size(), 12);
                              }),
              0.6);
}

TEST(Mnist, SurvivesMutants) { try_mutants(1000); }
TEST(Mnist, SurvivesMoreMutantsLong) { try_mutants(10000); }

TEST(Mnist, ReadsTheRealFiles) {
  const auto folder = fs::path(real_data()) / "mnist";
  if (real_data().empty() || !fs::exists(folder)) GTEST_SKIP() << "set NIXIE_TEST_DATA";
  const Splits splits = Mnist{.path = folder.string()}.open();
  EXPECT_EQ(splits.train->size(), 60000);
  EXPECT_EQ(splits.test->size(), 10000);
  EXPECT_EQ(splits.train->sample_shape(), (Shape{1, 28, 28}));
  // The constants of `normalize` are the training set's own.
  std::vector<float> image(784);
  double sum = 0, squares = 0;
  std::vector<int> classes(10);
  for (std::int64_t i = 0; i < 60000; ++i) {
    ++classes[static_cast<std::size_t>(splits.train->load(i, {}, image))];
    for (const float value : image) sum += value, squares += value * value;
  }
  EXPECT_NEAR(sum / (60000.0 * 784), 0, 1e-3);
  EXPECT_NEAR(squares / (60000.0 * 784), 1, 1e-3);
  EXPECT_EQ(classes, (std::vector<int>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}));
}

}  // namespace
}  // namespace nixie
