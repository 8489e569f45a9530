// The hooks of a run, in order; a callback that stops it; and the gradient noise scale.
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

class Recorder : public Callback {
 public:
  std::vector<std::string> events = {};
  std::int64_t stop_at = 0;

  void train_begins(Trainer& trainer) override { add("train", trainer.step()); }
  void epoch_begins(Trainer&, std::int64_t epoch) override { add("epoch", epoch); }
  void step_ends(Trainer& trainer, std::int64_t step) override {
    EXPECT_EQ(step, trainer.step());
    add("step", step);
    if (step == stop_at) trainer.stop();
  }
  void interval_ends(Trainer&, const Interval& interval) override { add("interval", interval.step); }
  void evaluation_ends(Trainer&, const Evaluation& result) override { add("evaluation", result.samples); }
  void save_begins(Trainer&, const std::vector<std::string>& files) override { add(files.back(), 0); }
  void epoch_ends(Trainer&, std::int64_t epoch) override { add("end of epoch", epoch); }
  void train_ends(Trainer&, bool is_done) override { add("end", is_done); }

 private:
  void add(const std::string& name, std::int64_t number) { events.push_back(fmt::format("{} {}", name, number)); }
};

/// 2 steps an epoch.
TrainConfig tiny(const std::string& more = "") {
  return config_in(R"(
model: [flatten, {linear: {out: 10}}]
data: {glyphs: {train: 16, test: 4, batch: 8}}
epochs: 2
log_every: 2
backend: cpu
threads: 1
)" + more);
}

TEST(Callbacks, AreToldEveryEventInOrder) {
  const TempFolder folder;
  const auto recorder = std::make_shared<Recorder>();
  Trainer trainer(tiny(), {.run = folder.path(), .callbacks = {recorder}});
  EXPECT_TRUE(trainer.train());
  EXPECT_THAT(recorder->events, ElementsAre("train 0", "epoch 0", "step 1", "step 2", "interval 2", "evaluation 4",
                                            "last.h5 0", "end of epoch 0", "epoch 1", "step 3", "step 4", "interval 4",
                                            "evaluation 4", "last.h5 0", "end of epoch 1", "end 1"));
}

TEST(Callbacks, MayStopARunThatGoesOnLater) {
  const TempFolder folder;
  const auto recorder = std::make_shared<Recorder>();
  recorder->stop_at = 3;
  Trainer trainer(tiny(), {.run = folder.path(), .callbacks = {recorder}});
  EXPECT_FALSE(trainer.train());
  EXPECT_EQ(trainer.step(), 3);
  EXPECT_EQ(recorder->events.back(), "end 0");
  EXPECT_TRUE(fs::exists(folder / "last.h5"));
  EXPECT_TRUE(trainer.train());
  EXPECT_EQ(trainer.step(), 4);
}

TEST(Callbacks, ErrorsEndTheRun) {
  struct Refuses : Callback {
    void step_ends(Trainer&, std::int64_t step) override { check(step < 2, "no more than 1 step, please"); }
  };
  Trainer trainer(tiny(), {.callbacks = {std::make_shared<Refuses>()}});
  EXPECT_FAULT(usage, "no more than 1 step", trainer.train());
}

TEST(Callbacks, ThatAreNullAreRefused) {
  EXPECT_FAULT(usage, testing::Eq("trainer: callbacks[1] is null; leave it out"),
               Trainer(tiny(), {.callbacks = {std::make_shared<Recorder>(), nullptr}}));
}

// The callback would destroy objects still in use.
TEST(Callbacks, CannotTrainOrResumeTheTrainerThatTrains) {
  struct Calls : Callback {
    std::function<void(Trainer&)> call;
    void step_ends(Trainer& trainer, std::int64_t step) override {
      if (step == 3) call(trainer);
    }
  };
  const TempFolder other;
  train_all(other.path(), tiny());
  const std::pair<const char*, std::function<void(Trainer&)>> kCalls[] = {
      {"train", [](Trainer& trainer) { trainer.train(); }},
      {"resume", [&](Trainer& trainer) { trainer.resume(other / "last.h5"); }},
      {"resume_last", [](Trainer& trainer) { trainer.resume(); }},
      {"use_folder", [&](Trainer& trainer) { trainer.use_folder(other.path()); }}};
  for (const auto& [name, call] : kCalls) {
    const TempFolder folder;
    const auto calls = std::make_shared<Calls>();
    calls->call = call;
    Trainer trainer(tiny(), {.run = folder.path(), .callbacks = {calls}});
    EXPECT_FAULT(usage,
                 testing::Eq(fmt::format(
                     "trainer: {}() is called while the same Trainer trains, as from a callback; call it after "
                     "train() has returned",
                     name)),
                 trainer.train());
    EXPECT_TRUE(trainer.train()) << "afterwards it goes on";
  }
}

// Gradients g + noise of variance v per sample: |g|^2 + v / B is the mean squared norm over B samples.
TEST(NoiseScale, IsVarianceOverSquaredMean) {
  for (const double slope : {0.5, 3.0})
    for (const double variance : {1.0, 40.0}) {
      const StepSums sums{.batch_norms = slope + variance / 8, .step_norms = slope + variance / 32};
      EXPECT_NEAR(noise_scale(sums, 8, 4), variance / slope, 1e-9);
    }
  EXPECT_EQ(noise_scale({.batch_norms = 8, .step_norms = 1}, 4, 8), INFINITY);
}

TEST(NoiseScale, IsToldWhereItIsAskedFor) {
  struct Reads : Callback {
    double scale = 0;
    void interval_ends(Trainer&, const Interval& interval) override { scale = interval.noise_scale; }
  };
  const auto reads = std::make_shared<Reads>();
  Trainer trainer(tiny("accumulate: 2\nnoise_scale: true\n"), {.callbacks = {reads}});
  trainer.train();
  EXPECT_GT(reads->scale, 0);
  EXPECT_FAULT(usage, "accumulate is 1, expected 2 or more", tiny("noise_scale: true\n"));
}

}  // namespace
}  // namespace nixie
