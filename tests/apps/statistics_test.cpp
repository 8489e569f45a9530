// A run with statistics: its lines, TensorBoard's numbers, the page, what a step that is not finite says, and that
// nothing else of the run changes.
#include <nlohmann/json.hpp>

#include "nixie/apps/trainer/record/statistics_lines.h"
#include "nixie/apps/trainer/report/statistics_table.h"
#include "nixie/tests/apps/pages.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

const std::string kMeasured = "statistics: {every: 2, histograms: 4, shadow: [e4m3, int8]}\n";

TEST(RunStatistics, EachRowHasALineForEachLayerAndRole) {
  const TempFolder folder;
  train_all(folder / "run", small_config(kMeasured));
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(text_of(folder / "run" / kStatisticsFile)))
    lines.push_back(nlohmann::json::parse(line));
  ASSERT_FALSE(lines.empty());
  std::set<std::string> found;
  std::set<int> steps;
  for (const nlohmann::json& line : lines) {
    found.insert(line["layer"].get<std::string>() + " " + line["role"].get<std::string>());
    steps.insert(line["step"].get<int>());
    EXPECT_GT(line["elements"], 0);
    EXPECT_EQ(line["nan"], 0);
    EXPECT_GT(line["largest"], 0);
    EXPECT_TRUE(line["e4m3"]["error"].is_number());
  }
  EXPECT_THAT(found, ElementsAre("1 activations", "1 gradients", "1 updates", "1 weights", "2 updates", "5 activations",
                                 "5 gradients", "5 updates", "5 weights"));
  EXPECT_THAT(steps, ElementsAre(4, 8, 10, 14, 18, 20, 23));  // the rows of training
  // Steps 0 and 2 before the first row: [20, 784] samples each.
  EXPECT_EQ(lines[0]["layer"], "1");
  EXPECT_EQ(lines[0]["elements"], 2 * 20 * 784);
  EXPECT_TRUE(lines[0].contains("exponents"));
  const std::string page = text_of(folder / "run/report.html");
  EXPECT_THAT(page,
              HasParts("<h2>Statistics</h2>", "<th>1</th><th>gradients</th>", "aria-label=\"exponents of 5 weights\""));
}

TEST(RunStatistics, ChangeNothingElseOfTheRun) {
  const TempFolder folder;
  train_all(folder / "with", small_config(kMeasured));
  train_all(folder / "without", small_config());
  EXPECT_EQ(text_of(folder / "with/metrics.csv"), text_of(folder / "without/metrics.csv"));
  EXPECT_FALSE(fs::exists(folder / "without" / kStatisticsFile));
}

TEST(RunStatistics, AResumeCutsTheLinesOfLaterSteps) {
  const TempFolder folder;
  const TrainConfig config = small_config(kMeasured);
  train_all(folder / "run", config);
  const std::string whole = text_of(folder / "run" / kStatisticsFile);
  EXPECT_EQ(statistics_up_to(folder / "run" / kStatisticsFile, 23), whole);
  const std::string begin = statistics_up_to(folder / "run" / kStatisticsFile, 10);
  EXPECT_THAT(whole, StartsWith(begin));
  EXPECT_THAT(begin, HasParts("\"step\": 10,", Not(HasSubstr("\"step\": 14,"))));
  std::ofstream(folder / "run" / kStatisticsFile, std::ios::app) << R"({"torn)";
  EXPECT_EQ(statistics_up_to(folder / "run" / kStatisticsFile, 23), whole);
}

TEST(RunStatistics, NameTheFirstLayerAndRoleThatOverflows) {
  const TrainConfig diverges =
      small_config("statistics: {every: 1}\n",
                   {"optimizer={sgd: {momentum: 0}}", "clip_norm=0", "schedule={constant: {rate: 1e30}}"});
  EXPECT_FAULT(non_finite, "; the first infinity or NaN that statistics saw is in the ", Trainer(diverges).train());
  EXPECT_FAULT(usage, StartsWith("run.yaml:"), Trainer{small_config("statistics: {shadow: [e4]}")});
}

TEST(RunStatistics, ScalarsAndHistogramsOfTensorBoard) {
  const TensorStatistics row{.layer = "a.b",
                             .role = "weights",
                             .elements = 8,
                             .zeros = 2,
                             .saturated = 4,
                             .infinite = 1,
                             .nan = 1,
                             .largest = 3,
                             .mean = 1.5,
                             .formats = {{.error = 0.25}},
                             .exponents = std::vector<std::int64_t>(TensorStatistics::kExponents, 1)};
  std::string text;
  for (const Scalar& scalar : statistics_scalars({row}, {"e4m3"}))
    text += fmt::format("{} {}\n", scalar.tag, scalar.value);
  EXPECT_EQ(text,
            "largest/a.b.weights 3\nmean/a.b.weights 1.5\nzeros/a.b.weights 0.25\nsaturated/a.b.weights 0.5\n"
            "not_finite/a.b.weights 0.25\nerror_e4m3/a.b.weights 0.25\n");
  const std::vector<Buckets> histograms = exponent_histograms({row});
  ASSERT_EQ(histograms.size(), 1U);
  EXPECT_EQ(histograms[0].tag, "exponents/a.b.weights");
  EXPECT_EQ(histograms[0].limits.front(), TensorStatistics::kLowestExponent + 1);
  EXPECT_TRUE(statistics_html({}, {}).empty());
}

}  // namespace
}  // namespace nixie
