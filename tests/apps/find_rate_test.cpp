// trainer find-rate: the suggestion from curves that are known, and the command on small nets.
#include "nixie/apps/trainer/rates/rate_sweep.h"
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

constexpr RateRange kRange{.low = 1e-4, .high = 10, .steps = 100};

/// A hundred rates from 1e-4 to 10, with losses by the formula, until the sweep ends.
RateCurve swept(const std::function<double(double rate)>& loss) {
  RateSweep sweep;
  for (int i = 0; i < 100; ++i) {
    const double rate = 1e-4 * std::pow(1e5, i / 99.0);
    if (!sweep.add(rate, loss(rate))) break;
  }
  return sweep.curve();
}

TEST(RateSweep, SuggestsATenthOfTheRateWithTheLowestLoss) {
  const auto valley = [](double at, double lift) {
    return [=](double rate) { return lift + std::pow(std::log10(rate / at), 2); };
  };
  const struct {
    const char* what;
    std::function<double(double)> loss;
    double low, high;  // of the suggestion; 0: none
    const char* advice;
  } kRows[] = {
      {"a valley", valley(0.1, 0.5), 0.01, 0.03, "lowest at rate"},
      {"a valley far to the left", valley(1e-3, 0.5), 1e-4, 3e-4, "lowest at rate"},
      {"losses below zero", valley(0.1, -10), 0.01, 0.03, "lowest at rate"},
      {"a cliff", [](double rate) { return rate < 0.5 ? 2 - std::log10(rate / 1e-4) / 4 : 1e9; }, 0.03, 0.06,
       "lowest at"},
      {"no number behind a cliff", [](double rate) { return rate < 0.5 ? 2 - std::log10(rate / 1e-4) / 4 : NAN; }, 0.03,
       0.06, "lowest at"},
      {"a fall to the end", [](double rate) { return 5 - std::log10(rate); }, 0, 0, "--to 1e+03"},
      {"a rise from the start", [](double rate) { return 5 + std::log10(rate); }, 0, 0, "--from 1e-07"},
      {"no number at all", [](double) { return NAN; }, 0, 0, "--from 1e-07"},
  };
  for (const auto& [what, loss, low, high, advice] : kRows) {
    const RateCurve curve = swept(loss);
    const double rate = suggested_rate(curve).value_or(0);
    EXPECT_GE(rate, low) << what;
    EXPECT_LE(rate, high) << what;
    EXPECT_THAT(rate_advice(curve, kRange), HasSubstr(advice)) << what;
  }
}

TEST(RateSweep, EndsWhereTheLossIsFourTimesItsLowest) {
  const RateCurve curve = swept([](double rate) { return rate < 0.01 ? 1 : 100; });
  EXPECT_TRUE(curve.has_diverged);
  EXPECT_LT(curve.steps.back().rate, 0.013);
}

/// The suggestion for small_config, whose Adam trains with rates about 0.01.
TEST(FindRate, SuggestsARateThatTrains) {
  const TrainConfig config = small_config("evaluate_every: 3\npatience: 1\nema: 0.9\naccumulate: 2\nkeep: 2\n");
  std::size_t shown = 0;
  const RateCurve curve = sweep_rates(config, {.low = 1e-5, .high = 100, .steps = 60},
                                      [&](const RateCurve& so_far) { shown = so_far.steps.size(); });
  EXPECT_EQ(shown, curve.steps.size());
  ASSERT_GT(curve.steps.size(), 20u);
  EXPECT_NEAR(curve.steps[0].rate, 1e-5, 1e-9);
  EXPECT_NEAR(curve.steps[12].rate, 1e-5 * std::pow(1e7, 12.0 / 59), 1e-7);
  const auto rate = suggested_rate(curve);
  ASSERT_TRUE(rate);
  EXPECT_GT(*rate, 1e-4);
  EXPECT_LT(*rate, 0.5);
}

TEST(FindRate, IsACommandThatWritesItsChartAlone) {
  const Workplace folder;
  folder.write("c.yaml",
               "model: {mlp: {classes: 10}}\ndata: {glyphs: {train: 2000, test: 64, batch: 32}}\n"
               "schedule: {cosine: {rate: 0.1}}\nepochs: 2\nbackend: cpu\n");
  expect_ran(folder.trainer("find-rate --config c.yaml --html rates.html"), 0,
             AllOf(ContainsRegex(" +rate +loss +smooth\n"), ContainsRegex("try a tenth of that: [0-9.]+"),
                   ContainsRegex("--set schedule[.]cosine[.]rate=0[.0-9]+\n"), HasSubstr("rates.html: the chart")));
  EXPECT_THAT(folder.text("rates.html"),
              HasParts("Loss over the learning rate", ">0.001</text>", "line-1", "try a tenth of that"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2);

  expect_runs([&](const std::string& options) { return folder.trainer("find-rate --config c.yaml " + options); },
              {{"--from 1 --to 0.1", 2, "sweeps from 1 to 0.1"},
               {"--from 0", 2, "sweeps from 0 to 10"},
               {"--steps 3", 2, "--steps"},
               {"--html c.txt", 2, "html"},
               {"--set data.glyphs.batch=5000", 5, "batch"}});
}

}  // namespace
}  // namespace nixie
