// Values that are not finite: a run stops or skips the step, and none is saved.
#include "nixie/apps/trainer/trainer.h"
#include "nixie/tests/apps/poisoned.h"
#include "nixie/tests/apps/printed.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

TrainConfig exploding(const std::string& multistep) {
  return small_config("", {"optimizer={sgd: {momentum: 0}}", "clip_norm=0", "schedule={multistep: " + multistep + "}"});
}

TEST(Trainer, StopsAtALossThatIsNoNumberAndKeepsWhatWasSaved) {
  const TempFolder folder;
  const TrainConfig config = exploding("{rate: 0.01, factor: 1e30, milestones: [1.15]}");  // good up to step 11
  const std::string line = error_of(Fault::non_finite, [&] { Trainer(config, {.run = folder.path()}).train(); });
  // though read after step 16
  EXPECT_THAT(line,
              HasParts("the loss is not finite at step 14; the first to be so is the output of 5 (linear)", "last.h5"));
  EXPECT_EQ(saved(folder / "last.h5"), 10);
  for (const auto& [name, array] : load_checkpoint(folder / "last.h5").model)
    for (const double value : array.to_vector<double>()) ASSERT_TRUE(std::isfinite(value)) << name;
}

TEST(Trainer, AStepThatIsNotFiniteStopsTheRunOrIsSkipped) {
  TrainConfig config = small_config("", {"model=[flatten, batch_norm, {linear: {out: 3}}]", "steps=0", "log_every=50",
                                         "schedule={constant: {rate: 0.01}}"});
  config.data = Poisoned{};
  const TempFolder stopped, skipped;
  EXPECT_FAULT(
      non_finite,
      ContainsRegex("the loss is not finite at step [1-5]; the first to be so is the images of the training half"),
      Trainer(config, {.run = stopped.path()}).train());
  EXPECT_FALSE(fs::exists(stopped / "last.h5"));

  config.non_finite = "skip";
  const Printed out;
  EXPECT_TRUE(Trainer(config, {.run = skipped.path(), .out = out.file()}).train());
  const std::string text = out.text();
  EXPECT_THAT(text, HasParts("1 of the steps 1 to 5 had", "1 of the steps 6 to 10 had", "1 of the steps 11 to 15 had"));
  EXPECT_EQ(saved(skipped / "last.h5"), 15);
  EXPECT_EQ(saved<double>(skipped / "last.h5", "shared.step"), 12);  // updates that were made
  EXPECT_THAT(text_of(skipped / "metrics.csv"), Not(HasSubstr("nan")));
}

// The number of steps that may be skipped does not depend on the log.
TEST(Trainer, SkippedStepsEndARunWhenThereAreManyInARow) {
  for (const char* rows :
       {"log_every: 1\n", "evaluate_every: 1\n", "log_every: 4\naccumulate: 2\nnoise_scale: true\n"}) {
    const TempFolder folder;
    TrainConfig config =
        config_in("model: [flatten, {linear: {out: 3}}]\ndata: glyphs\nnon_finite: skip\nepochs: 3\nbackend: cpu\n" +
                  std::string(rows));
    config.data = Poisoned{};
    EXPECT_TRUE(Trainer(config, {.run = folder.path()}).train()) << rows;
    EXPECT_THAT(text_of(folder / "metrics.csv"), Not(HasSubstr("nan"))) << rows;
  }
  const TempFolder folder;
  const TrainConfig config = small_config("precision: fp16\nloss_scale: 1e30\nnon_finite: skip\n");
  EXPECT_FAULT(non_finite,
               ContainsRegex("a loss or a gradient of each step since step 1 is not finite at step 2[0-3] .*; try a "
                             "smaller loss_scale, a smaller rate"),
               Trainer(config, {.run = folder.path()}).train());
}

// A skipped step leaves nothing behind for the next interval's noise scale.
TEST(Trainer, TheNoiseScaleAfterASkippedStepIsThatOfAResumedRun) {
  TrainConfig config = config_in(
      "model: [flatten, {linear: {out: 3}}]\ndata: glyphs\nnon_finite: skip\nsteps: 8\nbackend: cpu\nlog_every: 1\n"
      "accumulate: 2\nnoise_scale: true\n");
  config.data = Poisoned{};
  struct Reads : Callback {
    std::map<std::int64_t, double> scales;
    void interval_ends(Trainer&, const Interval& interval) override { scales[interval.step] = interval.noise_scale; }
  };
  const auto whole = std::make_shared<Reads>();
  const TempFolder folder;
  fs::create_directories(folder / "whole");
  Trainer(config, {.run = folder / "whole", .callbacks = {whole}}).train();
  EXPECT_LT(whole->scales.size(), 8u);  // steps were skipped
  for (int stop = 1; stop < 8; ++stop) {
    const fs::path run = folder / std::to_string(stop);
    fs::create_directories(run);
    int steps = 0;
    Trainer(config, {.run = run}).train([&] { return ++steps == stop; });
    const auto rest = std::make_shared<Reads>();
    Trainer again(config, {.run = run, .callbacks = {rest}});
    again.resume();
    again.train();
    for (const auto& [step, scale] : rest->scales)
      EXPECT_EQ(scale, whole->scales.at(step)) << step << " after " << stop;
  }
}

// The last update of a run has no later loss that would tell.
TEST(Trainer, AValueThatIsNoNumberAfterTheLastStepIsNotSaved) {
  const TempFolder folder;
  TrainConfig config = exploding("{rate: 0.01, factor: 1e45, milestones: [1.85]}");  // good up to step 19
  config.epochs = 2;
  config.steps = 0;
  EXPECT_FAULT(non_finite, "at step 20", Trainer(config, {.run = folder.path()}).train());
  EXPECT_EQ(saved(folder / "last.h5"), 10);
}

// A weight whose gradients are finite and whose second moment is not: the loss stays good.
TEST(Trainer, OptimizerStateThatIsNotFiniteIsNotSaved) {
  const TempFolder folder;
  const TrainConfig config = small_config("", {"model=[flatten, {linear: {out: 10}}]", "clip_norm=0", "steps=5"});
  Trainer trainer(config, {.run = folder.path()});
  for (const Variable& variable : trainer.optimizer().state().all())
    if (variable.name() == "1.bias.exp_avg_sq")
      variable.set(Array::from(std::vector<double>(10, std::numeric_limits<double>::infinity()), {10}));
  EXPECT_FAULT(non_finite, "/optimizer/1.bias/exp_avg_sq", trainer.train());
  EXPECT_FALSE(fs::exists(folder / "last.h5"));
}

}  // namespace
}  // namespace nixie
