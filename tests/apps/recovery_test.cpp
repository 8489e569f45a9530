// Where a value that is not finite began, and runs whose data cannot be read.
#include "nixie/tests/apps/printed.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/data/own_samples.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

TEST(NonFinite, IsNamedByTheLayerWhereItBegins) {
  const struct {
    const char *model, *first;
  } kCases[] = {
      {"model: [flatten, {linear: {out: 8, init: {constant: {value: 1e30}}}}, {linear: {out: 8, init: {constant: "
       "{value: "
       "1e30}}}, name: fc}, {linear: {out: 10}}]\n",
       "the output of fc (linear)"},
      {"model: [flatten, {sequential: [{linear: {out: 8, bias_init: {constant: {value: 3e38}}}}, {linear: {out: 10}}], "
       "name: head}]\n",
       "the output of head.1 (linear)"},
  };
  for (const auto& c : kCases) {
    const TrainConfig wrong =
        config_in(c.model + std::string("data: {glyphs: {train: 205, test: 50, batch: 20}}\nepochs: 1\n"
                                        "backend: cpu\naccumulate: 2\n"));
    const TempFolder run;
    EXPECT_FAULT(non_finite, "the loss is not finite at step 1; the first to be so is " + std::string(c.first) + " (",
                 Trainer(wrong, {.run = run.path()}).train());
  }
}

/// Noise in three classes; one sample, of the second epoch or of the other half, cannot be read once where `fails`.
struct Fragile {
  std::int64_t batch = 10;
  static constexpr const char* name = "fragile";
  static constexpr auto fields() { return field_list(field("batch", &Fragile::batch, "samples per step")); }
  static inline std::atomic<bool> fails = false;

  Splits open() const {
    const auto half = [](std::int64_t size, std::int64_t bad) {
      const auto load = [bad](std::int64_t index, const AugmentKey& key, std::span<float> pixels) {
        if (index == bad && (key.epoch == 1 || !key.training) && fails.exchange(false))
          fail(Fault::data, "picture 17 is damaged");
        return SampleFacts::waves(index, key, pixels);
      };
      return own_samples({.size = [size](int) { return size; }, .sample = {3, 2, 2}, .load = load});
    };
    return {half(110, bad_sample), half(20, bad_sample - 110)};
  }
  static inline std::int64_t bad_sample = 0;
};

// The search for where a value is not finite repeats steps; what stops it leaves the last checkpoint as it is.
TEST(Recovery, StepsThatAreRepeatedAreNotSaved) {
  TrainConfig config = config_in(R"(
model: [flatten, {linear: {out: 16}}, relu, {linear: {out: 3}}]
data: {glyphs: {}}
optimizer: {sgd: {momentum: 0}}
schedule: {multistep: {rate: 0.01, factor: 1e30, milestones: [1.5]}}
epochs: 3
save_every: 8
backend: cpu
)");
  class Breaks : public Callback {
    void step_ends(Trainer&, std::int64_t step) override { Fragile::fails = step > 18; }
  };
  config.data = Fragile{};
  Fragile::fails = false;
  int stopped = 0;
  for (Fragile::bad_sample = 0; Fragile::bad_sample < 110; Fragile::bad_sample += 3) {
    const TempFolder run;
    Trainer trainer(config, {.run = run.path(), .callbacks = {std::make_shared<Breaks>()}});
    const std::string line = error_of(Fault::non_finite, [&] { trainer.train(); });
    Fragile::fails = false;
    if (line.find("the first to be so") == std::string::npos) {
      EXPECT_THAT(line, HasSubstr("; where that began was not found: picture 17 is damaged ("));
      ++stopped;
    }
    EXPECT_EQ(saved(run / "last.h5"), 16) << line;
  }
  EXPECT_GT(stopped, 0);
}

// Where the search ends between the batches of a step, the run that goes back has none of them.
TEST(Recovery, ASearchThatFailsChangesNoRunThatGoesBack) {
  TrainConfig config = config_in(R"(
model: [flatten, {linear: {out: 16}}, relu, {linear: {out: 16}}, relu, {linear: {out: 3}}]
data: {glyphs: {}}
optimizer: {sgd: {momentum: 0}}
schedule: {multistep: {rate: 0.01, factor: 3e5, milestones: [1.5]}}
epochs: 3
accumulate: 2
log_every: 1
save_every: 8
non_finite: roll_back
threads: 1
backend: cpu
)");
  class Breaks : public Callback {
    void step_ends(Trainer&, std::int64_t step) override { Fragile::fails = step > 19; }
  };
  config.data = Fragile{.batch = 5};
  Fragile::fails = false;
  const TempFolder whole;
  EXPECT_TRUE(Trainer(config, {.run = whole.path()}).train());
  EXPECT_GT(saved(whole / "last.h5", "roll_backs"), 0);
  int failed = 0;
  for (Fragile::bad_sample = 0; Fragile::bad_sample < 110 && failed < 3; Fragile::bad_sample += 3) {
    const TempFolder run;
    const Printed out;
    Trainer trainer(config, {.run = run.path(), .out = out.file(), .callbacks = {std::make_shared<Breaks>()}});
    try {
      EXPECT_TRUE(trainer.train());
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);  // read ahead, not by the search
      continue;
    }
    failed += out.text().find("where that began was not found: picture 17 is damaged") != std::string::npos;
    expect_same_files(whole.path(), run.path(), std::to_string(Fragile::bad_sample));
  }
  Fragile::fails = false;
  EXPECT_GT(failed, 0);
}

// Which batch of its step a sample is in follows from the seed: of a dozen samples some are in each, and some behind
// the last step of the epoch.
TEST(Recovery, DataThatCannotBeReadCostNoStepThatWasDone) {
  for (const char* more : {"", "accumulate: 4\n", "accumulate: 4\nprecision: fp16\nnon_finite: skip\nema: 0.9\n"}) {
    TrainConfig config = config_in(R"(
model: [{conv2d: {out: 4, kernel: 1}}, batch_norm, relu, flatten, {dropout: {rate: 0.3}}, {linear: {out: 3}}]
data: {glyphs: {}}
optimizer: {adam: {}}
epochs: 3
backend: cpu
log_every: 1
)" + std::string(more));
    config.data = Fragile{};
    const TempFolder whole;
    Fragile::fails = false;
    train_all(whole.path(), config);
    for (const std::int64_t bad : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 117}) {
      Fragile::bad_sample = bad;
      const TempFolder parts;
      Fragile::fails = true;
      const Printed out;
      std::optional<Trainer> trainer;
      trainer.emplace(config, TrainerOptions{.run = parts.path(), .out = out.file()});
      EXPECT_FAULT(data, "picture 17 is damaged", trainer->train());
      EXPECT_EQ(saved(parts / "last.h5"), trainer->step());
      EXPECT_THAT(out.text(), HasSubstr(fmt::format("saved after step {}\n", trainer->step())));
      Fragile::fails = false;
      if (bad % 2 > 0) trainer.emplace(config, TrainerOptions{.run = parts.path()}).resume();
      EXPECT_TRUE(trainer->train());
      expect_same_files(whole.path(), parts.path(), fmt::format("{} of sample {}", more, bad));
    }
  }
}

// A run that was killed before its first save begins again as it began.
TEST(Resume, ARunThatWasNeverSavedReadsItsFirstWeightsAgain) {
  const TempFolder first, empty;
  TrainConfig config = small_config("", {"epochs=1", "steps=0"});
  train_all(first.path(), config);
  config.init_from = (first / "last.h5").string();
  config.seed = 8;
  Trainer resumed(config, {.run = empty.path(), .reads_init_from = false});
  resumed.resume();
  const Trainer begun(config);
  const std::vector<Variable> weights = begun.model().parameters().all(), again = resumed.model().parameters().all();
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(weights[i].array().to_vector<float>(), again[i].array().to_vector<float>()) << weights[i].name();
}

}  // namespace
}  // namespace nixie
