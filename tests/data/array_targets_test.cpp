// Arrays whose images are no bytes, or whose targets are no classes.
#include "nixie/core/files/number_array.h"
#include "nixie/data/arrays.h"
#include "nixie/data/loader.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/samples.h"

namespace nixie {
namespace {

/// 4 images [2, 3] of one channel: bytes 0, 1, 2, ...
Bytes small_images() {
  Bytes pixels(24);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  return npy("|u1", "(4, 2, 3)", pixels);
}

TEST(ArrayTargets, BeyondTheSignedNumbersAreNotNegative) {
  const Bytes bytes = bytes_of_numbers<std::uint64_t>({3, std::uint64_t{1} << 63, ~std::uint64_t{0}});
  const NumberArray array{.type = "u8", .shape = {3}, .bytes = bytes};
  EXPECT_THAT(floats_of(array), ElementsAre(3.f, 0x1p63f, 0x1p64f));
  EXPECT_THAT(*integers_of(array), ElementsAre(3, INT64_MAX, INT64_MAX));
}

TEST(ArrayTargets, OfANameOf300BytesAreRefused) {
  for (const char* suffix : {"", ".npz", ".h5", ".csv"})
    EXPECT_FAULT(data, "aaa", Arrays{.path = "/tmp/" + std::string(300, 'a') + suffix}.open()) << suffix;
}

TEST(ArrayTargets, OfNoNumbersAreRefused) {
  const TempFolder folder;
  write_file(folder / "images.npy", small_images());
  write_file(folder / "labels.npy", npy("<f4", "(4, 0)", {}));
  EXPECT_FAULT(data, "labels has the shape [4, 0], so no target", Arrays{.path = folder.path()}.open());
}

TEST(ArrayTargets, AreToldApartByTypeAndShape) {
  struct Case {
    const char *what, *descr, *shape, *option;
    Bytes elements;
    SampleTarget target;
    std::int64_t classes;
  };
  const Bytes floats4 = bytes_of_numbers<float>({0.5f, 1.5f, -2, 0}), mask(24, 1);
  const Case cases[] = {
      {"whole numbers", "<i8", "(4,)", "auto", bytes_of_numbers<std::int64_t>({0, 2, 1, 2}), {}, 3},
      {"a column of them", "|u1", "(4, 1)", "auto", {0, 2, 1, 2}, {}, 3},
      {"one-hot rows", "|u1", "(4, 3)", "auto", {1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1}, {}, 3},
      {"one-hot floats", "<f4", "(4, 2)", "auto", bytes_of_numbers<float>({1, 0, 0, 1, 1, 0, 0, 1}), {}, 2},
      {"a number each", "<f4", "(4,)", "auto", floats4, {Dtype::f32, {}}, 0},
      {"labels at once", "|u1", "(4, 3)", "auto", {1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1}, {Dtype::f32, {3}}, 0},
      {"a mask", "|u1", "(4, 2, 3)", "auto", mask, {Dtype::i32, {2, 3}}, 2},
      {"a mask with an axis of 1", "|u1", "(4, 1, 2, 3)", "auto", mask, {Dtype::i32, {2, 3}}, 2},
      {"classes as numbers", "|u1", "(4,)", "numbers", {0, 2, 1, 2}, {Dtype::f32, {}}, 0},
      {"a mask as numbers", "|u1", "(4, 2, 3)", "numbers", mask, {Dtype::f32, {2, 3}}, 0},
  };
  for (const Case& c : cases) {
    const TempFolder folder;
    write_file(folder / "images.npy", small_images());
    write_file(folder / "labels.npy", npy(c.descr, c.shape, c.elements));
    const Splits data = Arrays{.path = folder.path(), .target = c.option, .holdout = 0.25f}.open();
    EXPECT_EQ(data.train->target(), c.target) << c.what;
    EXPECT_EQ(data.test->target(), c.target) << c.what;
    EXPECT_EQ(data.train->classes(), c.classes) << c.what;
    EXPECT_EQ(data.train->size() + data.test->size(), 4) << c.what;
  }
}

/// The error of labels of that type and shape for 4 images [2, 3].
std::string error_with(const char* descr, const char* shape, const Bytes& elements,
                       const std::string& target = "auto") {
  const TempFolder folder;
  write_file(folder / "images.npy", small_images());
  write_file(folder / "labels.npy", npy(descr, shape, elements));
  return error_of(Fault::data, [&] { Arrays{.path = folder.path(), .target = target, .holdout = 0.25f}.open(); });
}

TEST(ArrayTargets, AreNamedByTheirPlace) {
  std::vector<std::int32_t> mask(24, 1);
  mask[3 * 6 + 1 * 3 + 2] = -7;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    const char *descr, *shape, *target;
    Bytes elements;
    std::string error;
  } kCases[] = {
      {"<i4", "(4, 2, 3)", "auto", bytes_of_numbers(mask),
       "labels[3, 1, 2] has the target -7, expected classes from 0 on"},
      {"<i4", "(4, 1, 2, 3)", "auto", bytes_of_numbers(mask), "labels[3, 0, 1, 2] has the target -7, expected classes"},
      {"<u8", "(4,)", "auto", bytes_of_numbers<std::uint64_t>({0, 1, 0, (1ull << 63) + 2}),
       "labels[3] has the target 9223372036854775810, expected classes"},
      {"<f4", "(4,)", "class", bytes_of_numbers<float>({0, 1, 1.5f, 1}),
       "labels[2] has the target 1.5, expected whole numbers"},
      {"<f4", "(4,)", "class", bytes_of_numbers<float>({0, 1, nan, 1}),
       "labels[2] has the target nan, expected whole numbers"},
      {"<f4", "(4,)", "class", bytes_of_numbers<float>({0, 1, 2, 1}), "labels has the type f4, expected integers"},
      {"|u1",
       "(4, 2)",
       "class",
       {1, 0, 0, 1, 1, 1, 0, 0},
       "labels[2] is no row with one 1 and else 0; correct it, or for several labels of a sample set "
       "data.arrays.target=numbers"},
      {"<f4", "(4, 2)", "class", bytes_of_numbers<float>({1, 0, 0.5f, 0.5f, 1, 0, 0, 1}), "labels[1] is no row with"},
      {"<f4", "(4,)", "auto", bytes_of_numbers<float>({0, 1, nan, 1}),
       "labels[2] has the target nan, expected numbers that are finite"},
      {"<f8", "(4, 2)", "auto", bytes_of_numbers<double>({0, 1, 2, 3, 4, 1e300, 6, 7}),
       "labels[2, 1] has the target 1e+300, expected"},
  };
  for (const auto& c : kCases) EXPECT_THAT(error_with(c.descr, c.shape, c.elements, c.target), HasSubstr(c.error));
}

TEST(ArrayTargets, OneHotRowsOfOneHalfAloneNameTheOddRow) {
  const TempFolder folder;
  const auto write = [&](const char* half, const Bytes& targets) {
    write_file(folder / (std::string("x_") + half + ".npy"), small_images());
    write_file(folder / (std::string("y_") + half + ".npy"), npy("<f4", "(4, 3)", targets));
  };
  const Bytes good = bytes_of_numbers<float>({1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0}),
              soft = bytes_of_numbers<float>({1, 0, 0, 0, 0, 1, 0.5f, 0.5f, 0, 1, 0, 0});
  for (const auto& [train, test, place] : {std::tuple{soft, good, "y_train[2]"}, {good, soft, "y_test[2]"}}) {
    write("train", train);
    write("test", test);
    EXPECT_FAULT(data,
                 fmt::format(": {} is no row with one 1 and else 0, as those of the other half are; correct it, or for "
                             "numbers set data.arrays.target=numbers",
                             place),
                 Arrays{.path = folder.path()}.open());
    EXPECT_EQ((Arrays{.path = folder.path(), .target = "numbers"}.open().train->target()),
              (SampleTarget{Dtype::f32, {3}}));
  }
}

// Whatever half of the file a sample comes from.
TEST(ArrayTargets, OutsideTheRangeOfTheLossAreNamedByTheirRow) {
  const TempFolder folder;
  std::vector<float> targets(20, 0.5f);
  targets[13] = 2.5f;
  std::string table = "size,price\n\n";  // sample 0 is in line 3
  for (const float target : targets) table += fmt::format("1,{}\n", target);
  write_file(folder / "t.csv", Bytes(table.begin(), table.end()));
  write_file(folder / "a/images.npy", npy("|u1", "(20, 1, 1)", Bytes(20)));
  write_file(folder / "a/labels.npy", npy("<f4", "(20,)", bytes_of_numbers(targets)));
  write_file(folder / "b/images.npy", npy("|u1", "(20, 1, 1)", Bytes(20)));
  write_file(folder / "b/labels.npy", npy("<f4", "(20, 1)", bytes_of_numbers(targets)));
  write_file(folder / "two/train.csv", Bytes{'1', ',', '.', '5', '\n'});
  write_file(folder / "two/test.csv", Bytes(table.begin(), table.end()));
  for (const auto& [name, place] :
       {std::pair{"t.csv", "t.csv:16"}, {"a", "a: labels[13]"}, {"b", "b: labels[13]"}, {"two", "two/test.csv:16"}}) {
    const Splits data = Arrays{.path = folder / name, .holdout = 0.4f}.open();
    std::string refused;
    for (const auto& dataset : {data.train, data.test, joined(data.train, data.test)}) {
      Loader loader(dataset, {.batch = 1, .threads = 1, .targets = {0, 1}}, 0, false);
      const std::string error = error_of(Fault::data, [&] { read_epoch(loader); });
      if (error == "no error") continue;
      EXPECT_THAT(error,
                  HasSubstr(" (" + (folder / place).string() + ") has the target 2.5, expected a number from 0"));
      refused += '.';
    }
    EXPECT_EQ(refused, "..") << name << ": by the half that has it, and by both joined";
  }
}

TEST(ArrayTargets, OfTablesAreNamedByTheirLine) {
  const TempFolder folder;
  std::ofstream(folder / "t.csv") << "size,kind\n1,0\n\n2,-1\n3,0\n";
  EXPECT_FAULT(data, "t.csv:4 has the target -1, expected classes from 0 on", Arrays{.path = folder / "t.csv"}.open());
}

// One rule with masks in PNG files.
TEST(ArrayTargets, PixelsMayBeOfNoClass) {
  const struct {
    std::vector<std::int32_t> labels;
    std::int64_t classes;
    std::vector<std::int32_t> without_class;
  } kCases[] = {{{0, 1, 2}, 3, {}},       {{0, 2, 255}, 3, {255}}, {{0, 1, -100}, 2, {-100}},
                {{0, 255, 300}, 301, {}}, {{255}, 1, {255}},       {{255, -100}, 1, {255, -100}}};
  for (const auto& c : kCases) {
    const TempFolder folder;
    std::vector<std::int32_t> mask(24);
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = c.labels[i % c.labels.size()];
    write_file(folder / "images.npy", small_images());
    write_file(folder / "labels.npy", npy("<i4", "(4, 2, 3)", bytes_of_numbers(mask)));
    const Splits data = Arrays{.path = folder.path(), .holdout = 0.25f}.open();
    for (const auto& half : {data.train, data.test}) {
      EXPECT_EQ(half->classes(), c.classes) << c.labels.back();
      EXPECT_EQ(half->labels_without_class(), c.without_class) << c.labels.back();
    }
    EXPECT_EQ(sample_target<std::int32_t>(*data.train, 0)[0], mask[0]);
  }
  EXPECT_THAT(error_with("<i4", "(4,)", bytes_of_numbers<std::int32_t>({0, 1, -100, 1})),
              HasSubstr("labels[2] has the target -100"));
}

TEST(ArrayTargets, ReachTheBatch) {
  const TempFolder folder;
  write_file(folder / "images.npy", small_images());
  write_file(folder / "labels.npy", npy("<f8", "(4, 2)", bytes_of_numbers<double>({0, 1, 2, 3, 4, 5, 6, 7})));
  const auto train = Arrays{.path = folder.path(), .normalize = false, .holdout = 0.25f}.open().train;
  Loader loader(train, {.batch = 2, .threads = 2}, 3, true);
  const Batch& batch = *loader.next();
  EXPECT_EQ(batch.labels.shape(), (Shape{2, 2}));
  const auto numbers = batch.labels.data<float>();
  const auto pixels = batch.images.data<std::uint8_t>();
  // Image i begins with byte 6 i, its numbers are 2 i and 2 i + 1.
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_THAT(numbers.subspan(2 * i, 2), ElementsAre(pixels[6 * i] / 3, pixels[6 * i] / 3 + 1));
}

TEST(ArrayTargets, MasksMoveWithTheirImages) {
  const TempFolder folder;
  Bytes pixels(4 * 5 * 5);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i % 7);
  write_file(folder / "images.npy", npy("|u1", "(4, 5, 5)", pixels));
  write_file(folder / "masks.npy", npy("|u1", "(4, 5, 5)", pixels));
  const Arrays options{.path = folder.path(), .pad = 2, .flip = true, .holdout = 0.25f};
  const auto train = options.open().train;
  bool has_moved = false;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const AugmentKey key{.seed = 1, .epoch = epoch, .training = true};
    const Bytes image = sample_bytes(*train, 1, key);
    const auto mask = sample_target<std::int32_t>(*train, 1, key);
    EXPECT_EQ(std::vector<std::int32_t>(image.begin(), image.end()), mask) << epoch;
    has_moved |= mask != sample_target<std::int32_t>(*train, 1);
  }
  EXPECT_TRUE(has_moved);
  Arrays turned = options;
  turned.augment.rotation = 10;
  EXPECT_FAULT(usage, "masks move with their images under pad", turned.open());
}

TEST(ArrayImages, OfNumbersAreNormalised) {
  const TempFolder folder;
  // 4 samples of 2 channels, one pixel: channel 0 is 100, 102, 104, 106, channel 1 always 7.
  write_file(folder / "x.npy", npy("<u2", "(4, 2)", bytes_of_numbers<std::uint16_t>({100, 7, 102, 7, 104, 7, 106, 7})));
  write_file(folder / "y.npy", npy("<i4", "(4,)", bytes_of_numbers<std::int32_t>({0, 1, 0, 1})));
  const Splits data = Arrays{.path = folder.path(), .holdout = 0.25f}.open();
  EXPECT_EQ(data.train->sample_shape(), (Shape{2, 1, 1}));
  EXPECT_EQ(data.train->bytes(), nullptr);
  double sum = 0, square = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::vector<float> pixels = sample_values(*data.train, i);
    sum += pixels[0], square += pixels[0] * pixels[0];
    EXPECT_EQ(pixels[1], 0);  // a channel that never changes has no deviation to divide by
  }
  EXPECT_NEAR(sum, 0, 1e-5);
  EXPECT_NEAR(square / 3, 1, 1e-5);
  // A prediction's conversion of the number itself.
  const Preparation preparation = data.train->preparation();
  const double value = sample_values(*data.test, 0)[0],
               raw = value * preparation.deviation[0] * 255 + preparation.mean[0] * 255;
  EXPECT_NEAR(std::remainder(raw, 2), 0, 1e-3);  // 100, 102, 104 or 106
  const Splits plain = Arrays{.path = folder.path(), .normalize = false, .holdout = 0.25f}.open();
  EXPECT_EQ(sample_values(*plain.train, 0)[1], 7);
}

}  // namespace
}  // namespace nixie
