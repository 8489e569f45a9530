// Glyphs and Generated: repeatable, of the promised statistics, and neither trivial nor hopeless to learn.
#include "nixie/data/generated.h"
#include "nixie/data/glyphs.h"
#include "nixie/tests/data/samples.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

/// The share of test samples whose nearest class mean is their own class's.
double nearest_mean_accuracy(const Splits& splits) {
  const auto pixels = static_cast<std::size_t>(splits.train->sample_shape().size());
  std::vector<std::vector<double>> means(static_cast<std::size_t>(splits.train->classes()),
                                         std::vector<double>(pixels));
  std::vector<float> image(pixels);
  const double share = static_cast<double>(splits.train->classes()) / static_cast<double>(splits.train->size());
  for (std::int64_t i = 0; i < splits.train->size(); ++i) {
    auto& mean = means[static_cast<std::size_t>(splits.train->load(i, {}, image))];
    for (std::size_t k = 0; k < pixels; ++k) mean[k] += share * image[k];
  }
  int right = 0;
  for (std::int64_t i = 0; i < splits.test->size(); ++i) {
    const auto label = static_cast<std::size_t>(splits.test->load(i, {}, image));
    std::size_t nearest = 0;
    double best = INFINITY;
    for (std::size_t c = 0; c < means.size(); ++c) {
      double distance = 0;
      for (std::size_t k = 0; k < pixels; ++k) distance += (means[c][k] - image[k]) * (means[c][k] - image[k]);
      if (distance < best) best = distance, nearest = c;
    }
    right += nearest == label;
  }
  return right / static_cast<double>(splits.test->size());
}

struct Moments {
  double mean, deviation;
};
Moments moments(const Dataset& dataset) {
  double sum = 0, squares = 0, count = 0;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(dataset.size(), 500); ++i)
    for (const double value : sample_values(dataset, i)) sum += value, squares += value * value, ++count;
  return {sum / count, std::sqrt(squares / count - sum / count * sum / count)};
}

TEST(Glyphs, AreRepeatableAndAllDifferent) {
  const Splits a = Glyphs{}.open(), b = Glyphs{}.open();
  EXPECT_EQ(a.train->size(), 20000);
  EXPECT_EQ(a.test->size(), 4000);
  EXPECT_EQ(a.train->sample_shape(), (Shape{1, 28, 28}));
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(sample_values(*a.train, i), sample_values(*b.train, i));
    EXPECT_EQ(sample_values(*a.train, i), sample_values(*b.train, i, {.seed = 9, .epoch = 3, .training = true}));
    EXPECT_NE(sample_values(*a.train, i), sample_values(*a.train, i + 10)) << "same digit, another hand";
    EXPECT_NE(sample_values(*a.train, i), sample_values(*a.test, i));
  }
  EXPECT_EQ((Glyphs{.limit = 30}.open().train->size()), 30);
  EXPECT_EQ((Glyphs{.test = 20, .limit = 30}.open().test->size()), 20);
}

TEST(Glyphs, NormalizeToZeroAndOne) {
  const Moments normal = moments(*Glyphs{}.open().train);
  EXPECT_NEAR(normal.mean, 0, 0.05);
  EXPECT_NEAR(normal.deviation, 1, 0.05);
  const auto raw = Glyphs{.normalize = false}.open().train;
  for (std::int64_t i = 0; i < 100; ++i)
    for (const float value : sample_values(*raw, i)) {
      EXPECT_GE(value, 0);
      EXPECT_LE(value, 1);
    }
}

TEST(Glyphs, NeedLearning) {
  const double accuracy = nearest_mean_accuracy(Glyphs{.train = 5000, .test = 1000}.open());
  EXPECT_GT(accuracy, 0.4) << "the digits can be distinguished";
  EXPECT_LT(accuracy, 0.9) << "but not by their mean image";
}

TEST(Generated, HasAnyShapeAndClassCount) {
  const Generated cases[] = {{.channels = 1, .height = 1, .width = 1, .classes = 1, .train = 3, .test = 1},
                             {.channels = 3, .height = 7, .width = 300, .classes = 5, .train = 20, .test = 10},
                             {.channels = 2, .height = 33, .width = 1, .classes = 1000, .train = 20, .test = 10}};
  for (const Generated& options : cases) {
    const Splits splits = options.open();
    EXPECT_EQ(splits.train->sample_shape(), (Shape{options.channels, options.height, options.width}));
    EXPECT_EQ(splits.train->classes(), options.classes);
    EXPECT_EQ(splits.train->size(), options.train);
    for (std::int64_t i = 0; i < splits.train->size(); ++i) {
      const std::vector<float> pixels = sample_values(*splits.train, i);
      EXPECT_EQ(sample_label(*splits.train, i), i % options.classes);
      for (const float value : pixels) EXPECT_TRUE(std::abs(value) < 20) << value;
      EXPECT_EQ(pixels, sample_values(*options.open().train, i)) << "repeatable";
    }
  }
}

TEST(Generated, HasNormalStatisticsAndClassesThatCanBeLearnt) {
  const Splits splits = Generated{.train = 1000, .test = 200}.open();
  const Moments found = moments(*splits.train);
  EXPECT_NEAR(found.mean, 0, 0.1);
  EXPECT_NEAR(found.deviation, 1, 0.15);
  EXPECT_GT(nearest_mean_accuracy(splits), 0.95);
  EXPECT_NE(sample_values(*splits.train, 0), sample_values(*splits.train, 10)) << "same class, other noise";
  EXPECT_NE(sample_values(*splits.train, 0), sample_values(*splits.test, 0));
  const Moments pattern = moments(*Generated{.noise = 0}.open().train);
  EXPECT_NEAR(std::hypot(pattern.deviation, 0.5), found.deviation, 0.02) << "noise is a deviation";
}

// Without noise each side of the border is the pattern of its class, at one contrast.
TEST(Generated, MasksNameTheClassOfEachPixel) {
  const Generated options{.channels = 2, .height = 6, .width = 20, .classes = 3, .noise = 0, .masks = true};
  const Splits masked = options.open();
  Generated plain = options;
  plain.masks = false;
  const Splits whole = plain.open();
  EXPECT_EQ(masked.train->target(), (SampleTarget{Dtype::i32, {6, 20}}));
  const TargetReader read(*masked.train);
  int divided = 0;
  for (std::int64_t i = 0; i < 30; ++i) {
    std::vector<std::int32_t> mask(120);
    read(i, {}, 0, std::as_writable_bytes(std::span(mask)));
    const std::vector<float> image = sample_values(*masked.train, i);
    std::size_t border = 1;
    while (border < 20 && mask[border] == mask[0]) ++border;
    divided += border < 20;
    EXPECT_EQ(mask[0], i % 3);
    for (std::size_t at = 0; at < 120; ++at) EXPECT_EQ(mask[at], mask[at % 20]);
    for (const std::size_t column : {std::size_t{0}, std::size_t{19}}) {
      const std::vector<float> pattern = sample_values(*whole.train, mask[column]);  // sample c is of class c
      const float ratio = image[column] / pattern[column];
      for (std::size_t row = 0; row < 12; ++row)
        EXPECT_NEAR(image[row * 20 + column], ratio * pattern[row * 20 + column], 1e-4) << i;
    }
  }
  EXPECT_GT(divided, 10);
}

TEST(Generated, SmoothOverNeighbours) {
  const auto image = sample_values(*Generated{.channels = 1, .height = 64, .width = 64, .noise = 0}.open().train, 0);
  for (std::size_t i = 1; i < 64; ++i) EXPECT_LT(std::abs(image[i] - image[i - 1]), 0.8f);
}

}  // namespace
}  // namespace nixie
