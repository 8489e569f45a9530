// Runs whose products have accumulators of another format, from a configuration.
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

const std::string kNet = R"(
model: [{conv2d: {out: 8, kernel: 5, stride: 2}}, relu, flatten, {linear: {out: 10}}]
data: {glyphs: {train: 400, test: 100, batch: 20}}
schedule: {constant: {rate: 0.02}}
epochs: 3
seed: 7
backend: cpu
)";

Evaluation trained(const std::string& more) {
  Trainer trainer(config_in(kNet + more), {});
  EXPECT_TRUE(trainer.train());
  return trainer.evaluate();
}

// Ten bits of mantissa do nearly as well as f32's sums, two do not.
TEST(RoundedSumsRun, TrainsWithNarrowAccumulators) {
  const Evaluation wide = trained(""), half = trained("formats: [{sums: {format: e5m10, every: 32}}]\n"),
                   narrow = trained("formats: [{layers: \"3\", sums: {format: e5m2, every: 16}}]\n");
  EXPECT_NE(half.loss, wide.loss);
  EXPECT_NEAR(half.loss, wide.loss, 0.05 * wide.loss);
  EXPECT_GT(std::abs(narrow.loss - wide.loss), std::abs(half.loss - wide.loss));
}

TEST(RoundedSumsRun, BadInputIsNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"{format: e5m10, every: 20}", "formats.0: sums: every is 20, expected 16, 32 or 64"},
      {"{format: e5m10, every: 8}", "every is 8, expected a number from 16 to 64"},
      {"{format: half}", "format is \"half\", expected one of f16"},
      {"{width: 16}", "unknown key \"width\" in formats.0.sums, expected one of format, every"},
      {"f16", "expected a map of fields"}};
  for (const auto& [sums, text] : rows) {
    EXPECT_FAULT(usage, text, trained(fmt::format("formats: [{{sums: {}}}]\n", sums)));
  }
}

}  // namespace
}  // namespace nixie
