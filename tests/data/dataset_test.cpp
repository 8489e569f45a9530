// Two halves as one dataset: each sample, target and label is that of its half.
#include "nixie/data/dataset.h"

#include "nixie/data/arrays.h"
#include "nixie/data/loader.h"
#include "nixie/data/stored_images.h"
#include "nixie/tests/data/samples.h"
#include "nixie/tests/data/support.h"

namespace nixie {
namespace {

Splits open(const TempFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return Arrays{.path = folder / name, .normalize = false, .holdout = 0.4f}.open();
}

TEST(Joined, HasTheSamplesOfBoth) {
  TempFolder folder;
  std::string rows;
  for (int i = 0; i < 10; ++i) rows += fmt::format("{},{},{}\n", i, 2 * i, i % 3 ? "odd" : "even");
  const Splits halves = open(folder, "rows.csv", rows);
  const auto all = joined(halves.train, halves.test);
  ASSERT_EQ(all->size(), 10);
  EXPECT_EQ(all->sample_shape(), halves.train->sample_shape());
  EXPECT_THAT(all->class_names(), ElementsAre("even", "odd"));
  const std::vector<std::int32_t> labels = all->labels();
  ASSERT_EQ(labels.size(), 10u);
  std::vector<float> sum(2);
  for (std::int64_t i = 0; i < 10; ++i) {
    const bool is_first = i < halves.train->size();
    const Dataset& half = is_first ? *halves.train : *halves.test;
    const std::int64_t at = is_first ? i : i - halves.train->size();
    const std::int32_t label = sample_label(half, at);
    const std::vector<float> sample = sample_values(*all, i);
    EXPECT_EQ(sample_label(*all, i), label);
    EXPECT_EQ(sample, sample_values(half, at));
    EXPECT_EQ(labels[static_cast<std::size_t>(i)], label);
    for (std::size_t c : {0u, 1u}) sum[c] += sample[c];
  }
  EXPECT_THAT(sum, ElementsAre(45, 90));
}

TEST(Joined, HasTheTargetsOfBoth) {
  TempFolder folder;
  std::string rows;
  for (int i = 0; i < 8; ++i) rows += fmt::format("{},{}.5\n", i, 10 * i);
  const Splits halves = open(folder, "numbers.csv", rows);
  const auto all = joined(halves.train, halves.test);
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_EQ(sample_target<float>(*all, i)[0], 10 * sample_values(*all, i)[0] + 0.5f);
}

TEST(Joined, KnowsTheLabelsWithoutClassOfBoth) {
  const auto half = [](std::vector<std::int32_t> mask, std::vector<std::int32_t> without_class) {
    return std::make_shared<StoredImages>(
        StoredImages::Content{
            {1, 1, 2}, {0, 0}, {.values = Array::from(mask, {1, 1, 2}), .without_class = without_class}},
        std::vector<std::string>{"a", "b"}, SmallTransform{}, 0);
  };
  Loader loader(joined(half({1, 255}, {255}), half({-100, 255}, {255, -100})), {.batch = 2}, 0, false);
  EXPECT_THAT(loader.dataset().labels_without_class(), ElementsAre(255, -100));
  EXPECT_THAT(loader.next()->labels.to_vector<std::int32_t>(), ElementsAre(1, 255, -100, 255));
}

}  // namespace
}  // namespace nixie
