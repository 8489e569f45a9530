// Other data than a model's own: each sample is what a prediction makes of it, each label a class of the model.
#include "nixie/apps/trainer/commands/as_trained.h"

#include "nixie/data/arrays.h"
#include "nixie/data/loader.h"
#include "nixie/tests/data/arrays.h"
#include "nixie/tests/data/samples.h"
#include "nixie/tests/data/support.h"

namespace nixie {
namespace {

class AsTrainedTest : public testing::Test {
 protected:
  fs::path table(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  Splits open(const fs::path& path) const { return Arrays{.path = path, .holdout = 0.5f}.open(); }

  TempFolder folder_;
};

TEST_F(AsTrainedTest, NumbersAreNormalisedAsThoseOfTheTraining) {
  std::string own, others;
  for (int i = 0; i < 16; ++i) own += fmt::format("{},{},{}\n", i, 1e6 + 3 * i, i % 2 ? "odd" : "even");
  for (int i = 0; i < 16; ++i) others += fmt::format("{},7,{}\n", 1000 - i, i % 3 ? "even" : "odd");
  const Splits trained = open(table("own.csv", own));
  const fs::path file = table("others.csv", others);
  const auto& names = trained.train->class_names();
  const Preparation preparation = trained.train->preparation();
  EXPECT_EQ(as_trained(trained.test, preparation, names), trained.test);

  const Splits found = open(file);
  const std::vector<Array> predicted = prepare_arrays(file, preparation);
  std::size_t same = 0;
  for (const auto& half : {as_trained(found.train, preparation, names), as_trained(found.test, preparation, names)}) {
    EXPECT_EQ(half->preparation().mean, preparation.mean);
    EXPECT_EQ(half->sample_shape(), (Shape{2, 1, 1}));
    EXPECT_EQ(half->labels().size(), 8u);
    for (std::int64_t i = 0; i < half->size(); ++i) {
      const std::vector<float> sample = sample_values(*half, i);
      const auto is_same = [&](const Array& each) {
        const auto numbers = each.data<float>();
        return std::abs(numbers[0] - sample[0]) < 1e-3f && std::abs(numbers[1] / sample[1] - 1) < 1e-6f;
      };
      same += std::ranges::any_of(predicted, is_same);
    }
  }
  EXPECT_EQ(same, 16u);
}

TEST_F(AsTrainedTest, BytesAreNormalisedAsThoseOfTheTraining) {
  Bytes dark, bright, labels;
  for (int i = 0; i < 32; ++i) {
    dark.push_back(static_cast<std::uint8_t>(i)), bright.push_back(static_cast<std::uint8_t>(200 + i % 7));
    if (i % 4 == 0) labels.push_back(static_cast<std::uint8_t>(i / 4 % 2));
  }
  for (const auto& [name, pixels] : {std::pair{"dark", &dark}, {"bright", &bright}}) {
    write_file(folder_ / name / "x.npy", npy("|u1", "(8, 2, 2)", *pixels));
    write_file(folder_ / name / "y.npy", npy("|u1", "(8,)", labels));
  }
  const Splits trained = open(folder_ / "dark"), found = open(folder_ / "bright");
  const Preparation preparation = trained.train->preparation();
  const auto seen = as_trained(found.test, preparation, trained.train->class_names());
  ASSERT_TRUE(seen->bytes());
  for (std::int64_t i = 0; i < seen->size(); ++i) {
    EXPECT_EQ(sample_label(*seen, i), sample_label(*found.test, i));
    const std::vector<float> sample = sample_values(*seen, i);
    const Bytes raw = sample_bytes(*found.test, i);
    for (std::size_t p = 0; p < 4; ++p)
      EXPECT_NEAR(sample[p], (raw[p] / 255.0 - preparation.mean[0]) / preparation.deviation[0], 1e-4);
  }
}

TEST_F(AsTrainedTest, MasksKeepTheirLabelsWithoutClass) {
  for (const auto& [name, pixels] : {std::pair{"dark", Bytes{0, 1, 2, 3}}, {"bright", {200, 210, 220, 230}}}) {
    write_file(folder_ / name / "x.npy", npy("|u1", "(4, 1, 1)", pixels));
    write_file(folder_ / name / "y.npy", npy("|u1", "(4, 1, 1)", {1, 255, 1, 255}));
  }
  const Splits trained = open(folder_ / "dark"), found = open(folder_ / "bright");
  const auto seen =
      as_trained(joined(found.train, found.test), trained.train->preparation(), trained.train->class_names());
  Loader loader(seen, {.batch = 4}, 0, false);
  EXPECT_THAT(loader.next()->labels.to_vector<std::int32_t>(), testing::UnorderedElementsAre(1, 255, 1, 255));
}

TEST_F(AsTrainedTest, ClassesKeepTheirNames) {
  const Splits trained = open(table("own.csv", "1,cat\n2,dog\n3,fox\n4,cat\n5,dog\n6,fox\n"));
  const auto& names = trained.train->class_names();
  const auto seen = [&](const std::string& rows) {
    const Splits found = open(table("others.csv", rows));
    return as_trained(found.train, trained.train->preparation(), names);
  };
  const auto half = seen("1,fox\n2,dog\n3,fox\n4,dog\n5,fox\n6,dog\n");
  EXPECT_THAT(half->class_names(), ElementsAre("cat", "dog", "fox"));
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < half->size(); ++i) labels.push_back(sample_label(*half, i));
  EXPECT_EQ(labels, half->labels());
  EXPECT_THAT(labels, AllOf(testing::Each(testing::AnyOf(1, 2)), testing::Contains(1), testing::Contains(2)));
  EXPECT_FAULT(data, "class \"owl\" of the data is none of those that the model was trained with (2 and 3 classes)",
               seen("1,fox\n2,owl\n3,fox\n4,owl\n"));
}

}  // namespace
}  // namespace nixie
