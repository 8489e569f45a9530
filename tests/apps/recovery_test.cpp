// Runs that go back to their last checkpoint, and where a value that is not finite began.
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <utility>

#include "nixie/tests/apps/bearable_at_half.h"
#include "nixie/tests/apps/poisoned.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

using namespace nixie::test;
using testing::HasSubstr;

/// Trains to the end; what was printed.
std::string printed(const TrainConfig& config, const std::filesystem::path& run) {
  const TempFolder folder;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen((folder / "log").c_str(), "w"), &std::fclose);
  Trainer trainer(config, {.run = run, .out = out.get()});
  EXPECT_TRUE(trainer.train());
  std::fflush(out.get());
  return text_of(folder / "log");
}

std::int64_t saved(const std::filesystem::path& file, const char* name) {
  return std::get<std::int64_t>(load_checkpoint(file).state.at(name));
}

/// The rates of a run's rows.
std::vector<double> rates_of(const std::filesystem::path& run) {
  std::istringstream text(text_of(run / "metrics.csv"));
  std::vector<double> rates;
  std::string line;
  for (std::getline(text, line); std::getline(text, line);)
    rates.push_back(std::stod(line.substr(line.rfind(',') + 1)));
  return rates;
}

TEST(RollBack, ARunGoesBackWithHalfTheRate) {
  const TempFolder run;
  const std::string log = printed(bearable_at_half(), run.path());
  EXPECT_THAT(log, HasSubstr("the loss is not finite at step 7; the first to be so is the output of 5 (linear): 1 of 5 "
                             "times, the run goes back to step 0, with 0.5 of the schedule's rate\n"));
  EXPECT_EQ(saved(run / "last.h5", "step"), 40);
  EXPECT_EQ(saved(run / "last.h5", "roll_backs"), 1);
  EXPECT_THAT(rates_of(run.path()), testing::Each(100));
  EXPECT_THAT(text_of(run / "metrics.csv"), testing::StartsWith("epoch,step,split,loss,accuracy,learning_rate\n1,4,"));
}

// A checkpoint whose weights are finite but lost: the run that fails again goes further back.
TEST(RollBack, ACheckpointThatDoesNotHelpIsLeftBehind) {
  const TempFolder run;
  const std::string log = printed(bearable_at_half("save_every: 3\n"), run.path());
  EXPECT_THAT(log, HasSubstr("1 of 5 times, the run goes back to step 6, with 0.5 of the schedule's rate\n"));
  EXPECT_THAT(log, HasSubstr("2 of 5 times, the run goes back to step 0, with 0.25 of the schedule's rate\n"));
  EXPECT_THAT(rates_of(run.path()), testing::Each(50));
}

// Half the rate from the start is another way to the same numbers.
TEST(RollBack, TheRunIsThenThatOfTheSmallerRate) {
  const TempFolder back, half;
  printed(bearable_at_half(), back.path());
  TrainConfig config = bearable_at_half();
  config.schedule = ConstantRate{.rate = 100};
  printed(config, half.path());
  EXPECT_EQ(text_of(back / "metrics.csv"), text_of(half / "metrics.csv"));
}

// What a signal saves is nothing to go back to: the undisturbed run has none of it. The state goes on from it all the
// same, with how often and how far the run went back.
TEST(RollBack, StoppedAnywhereItGoesOnBitForBit) {
  for (const char* more : {"", "save_every: 3\n", "save_every: 5\nkeep: 1\n"}) {
    const TrainConfig config = bearable_at_half(more);
    const TempFolder whole;
    printed(config, whole.path());
    EXPECT_GT(saved(whole / "last.h5", "roll_backs"), 0);
    constexpr int kNever = 1000;
    const auto train = [&](const TempFolder& run, int stop_after, int save_after) {
      Trainer trainer(config, {.run = run.path()});
      trainer.resume();
      const std::int64_t first = trainer.step();
      bool is_asked = false;
      return trainer.train([&] { return trainer.step() >= first + stop_after; },
                           [&] { return trainer.step() >= save_after && !std::exchange(is_asked, true); });
    };
    const auto expect_same = [&](const TempFolder& parts, const std::string& how) {
      expect_same_files(whole.path(), parts.path(), more + how);
      EXPECT_FALSE(std::filesystem::exists(parts / "scheduled.h5")) << more << how;
    };
    for (const int at : {2, 5, 6, 8, 9, 13, 33}) {
      const TempFolder stopped, stopped_again, asked;
      train(stopped, at, kNever);
      EXPECT_TRUE(train(stopped, kNever, kNever));
      expect_same(stopped, fmt::format(" stopped after {}", at));
      for (int parts = 0; parts < 100 && !train(stopped_again, at, kNever);) ++parts;
      expect_same(stopped_again, fmt::format(" stopped after every {}", at));
      EXPECT_TRUE(train(asked, kNever, at));
      expect_same(asked, fmt::format(" asked to save after {}", at));
    }
  }
}

/// Copies the run's folder, as a kill leaves it, whenever the run went back and made a step since.
struct CopiesWhereItWentBack : Callback {
  CopiesWhereItWentBack(std::filesystem::path from, std::filesystem::path to)
      : run(std::move(from)), copies(std::move(to)) {}
  void step_ends(Trainer&, std::int64_t step) override {
    if (step <= std::exchange(last, step))
      std::filesystem::copy(run, copies / std::to_string(count++), std::filesystem::copy_options::recursive);
  }
  std::filesystem::path run, copies;
  std::int64_t last = 0;
  int count = 0;
};

// Rows that last.h5 counts are cut only once it is of the step that the run went back to.
TEST(RollBack, KilledBehindItTheTableAgreesWithTheCheckpoint) {
  int further = 0;
  for (const char* more : {"save_every: 3\n", "save_every: 5\nkeep: 1\n", "save_every: 3\nema: 0.9\nkeep: 2\n"}) {
    const TrainConfig config = bearable_at_half(more);
    const TempFolder whole, copies;
    const auto copier = std::make_shared<CopiesWhereItWentBack>(whole.path(), copies.path());
    Trainer(config, {.run = whole.path(), .callbacks = {copier}}).train();
    EXPECT_GT(copier->count, 0) << more;
    for (int i = 0; i < copier->count; ++i) {
      SCOPED_TRACE(fmt::format("{}copy {}", more, i));
      const std::filesystem::path run = copies / std::to_string(i);
      further += std::filesystem::exists(run / "scheduled.h5");
      const TempFolder log;
      const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen((log / "log").c_str(), "w"), &std::fclose);
      Trainer again(config, {.run = run, .out = out.get()});
      again.resume();
      EXPECT_TRUE(again.train());
      std::fflush(out.get());
      EXPECT_THAT(text_of(log / "log"), testing::Not(HasSubstr("rows are missing")));
      expect_same_files(whole.path(), run, "");
    }
  }
  EXPECT_GT(further, 0) << "some went back further than last.h5";
}

TEST(RollBack, ARunThatNoRateHelpsEnds) {
  const TempFolder run;
  TrainConfig config = bearable_at_half();
  config.model = AnyModel(Sequential{Flatten{}, BatchNorm{}, Linear{.out = 3}});
  config.data = Poisoned{};
  config.schedule = ConstantRate{.rate = 0.01};
  const std::string line = error_of(Fault::non_finite, [&] { Trainer(config, {.run = run.path()}).train(); });
  EXPECT_THAT(line, HasSubstr("the first to be so is the images of the training half"));
  EXPECT_THAT(line, HasSubstr("; the run went back 5 times already"));
  EXPECT_FALSE(std::filesystem::exists(run / "last.h5"));
}

TEST(RollBack, GoesBackToTheCheckpointOfAResumedRun) {
  const TempFolder run;
  TrainConfig config = bearable_at_half("keep: 2\n");
  config.optimizer = Sgd{.momentum = 0};
  config.schedule = MultistepRate{.rate = 0.01, .factor = 1e30, .milestones = {1.15}};  // good up to step 11
  config.epochs = 3;
  std::string line = error_of(Fault::non_finite, [&] { Trainer(config, {.run = run.path()}).train(); });
  EXPECT_THAT(line, HasSubstr("the run went back 5 times already"));
  const TempFolder moved;
  // It counts four times already: twice the run was back at step 10, and twice at its start.
  std::filesystem::copy_file(run / "step-10.h5", moved / "a.h5");
  const TempFolder log;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen((log / "log").c_str(), "w"), &std::fclose);
  const TempFolder other;
  Trainer again(config, {.run = other.path(), .out = out.get()});
  again.resume(moved / "a.h5");
  EXPECT_THAT(error_of(Fault::non_finite, [&] { again.train(); }), HasSubstr("the run went back 5 times already"));
  std::fflush(out.get());
  EXPECT_THAT(text_of(log / "log"), HasSubstr("5 of 5 times, the run goes back to step 10,"));
}

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
        read_config(parse_yaml(c.model + std::string("data: {glyphs: {train: 205, test: 50, batch: 20}}\nepochs: 1\n"
                                                     "backend: cpu\naccumulate: 2\n"),
                               "run.yaml"));
    const TempFolder run;
    EXPECT_THAT(error_of(Fault::non_finite, [&] { Trainer(wrong, {.run = run.path()}).train(); }),
                HasSubstr("the loss is not finite at step 1; the first to be so is " + std::string(c.first) + " ("));
  }
}

/// Noise in three classes; one sample, of the second epoch or of the other half, cannot be read while `fails`.
struct Fragile {
  std::int64_t batch = 10;
  static constexpr const char* name = "fragile";
  static constexpr auto fields() { return field_list(field("batch", &Fragile::batch, "samples per step")); }
  static inline std::atomic<bool> fails = false;

  Splits open() const {
    class Samples final : public Dataset {
     public:
      Samples(std::int64_t size, std::int64_t bad) : size_(size), bad_(bad) {}
      std::int64_t size() const override { return size_; }
      Shape sample_shape() const override { return {3, 2, 2}; }
      const std::vector<std::string>& class_names() const override { return names_; }
      std::int32_t load(std::int64_t index, const AugmentKey& key, std::span<float> pixels) const override {
        if (fails && index == bad_ && (key.epoch == 1 || !key.training)) fail(Fault::data, "picture 17 is damaged");
        for (std::size_t i = 0; i < pixels.size(); ++i)
          pixels[i] = std::sin(static_cast<float>(index * 12 + static_cast<std::int64_t>(i)));
        return static_cast<std::int32_t>(index % 3);
      }

     private:
      std::int64_t size_, bad_;
      std::vector<std::string> names_{"a", "b", "c"};
    };
    return {std::make_shared<Samples>(110, bad_sample), std::make_shared<Samples>(20, bad_sample - 110)};
  }
  static inline std::int64_t bad_sample = 0;
};

// The search for where a value is not finite repeats steps; what stops it leaves the last checkpoint as it is.
TEST(Recovery, StepsThatAreRepeatedAreNotSaved) {
  TrainConfig config = read_config(parse_yaml(R"(
model: [flatten, {linear: {out: 16}}, relu, {linear: {out: 3}}]
data: {glyphs: {}}
optimizer: {sgd: {momentum: 0}}
schedule: {multistep: {rate: 0.01, factor: 1e30, milestones: [1.5]}}
epochs: 3
save_every: 8
backend: cpu
)",
                                              "run.yaml"));
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
    stopped += line.find("the first to be so") == std::string::npos;
    EXPECT_EQ(saved(run / "last.h5", "step"), 16) << line;
  }
  EXPECT_GT(stopped, 0);
}

// Which batch of its step a sample is in follows from the seed: of a dozen samples some are in each, and some behind
// the last step of the epoch.
TEST(Recovery, DataThatCannotBeReadCostNoStepThatWasDone) {
  const TempFolder log;
  for (const char* more : {"", "accumulate: 4\n", "accumulate: 4\nprecision: fp16\nnon_finite: skip\nema: 0.9\n"}) {
    TrainConfig config = read_config(parse_yaml(R"(
model: [{conv2d: {out: 4, kernel: 1}}, batch_norm, relu, flatten, {dropout: {rate: 0.3}}, {linear: {out: 3}}]
data: {glyphs: {}}
optimizer: {adam: {}}
epochs: 3
backend: cpu
log_every: 1
)" + std::string(more),
                                                "run.yaml"));
    config.data = Fragile{};
    const TempFolder whole;
    Fragile::fails = false;
    train_all(whole.path(), config);
    for (const std::int64_t bad : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 117}) {
      Fragile::bad_sample = bad;
      const TempFolder parts;
      Fragile::fails = true;
      const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen((log / "log").c_str(), "w"), &std::fclose);
      std::optional<Trainer> trainer;
      trainer.emplace(config, TrainerOptions{.run = parts.path(), .out = out.get()});
      EXPECT_THAT(error_of(Fault::data, [&] { trainer->train(); }), HasSubstr("picture 17 is damaged"));
      EXPECT_EQ(saved(parts / "last.h5", "step"), trainer->step());
      std::fflush(out.get());
      EXPECT_THAT(text_of(log / "log"), HasSubstr(fmt::format("saved after step {}\n", trainer->step())));
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
  TrainConfig config = small_config();
  config.epochs = 1;
  config.steps = 0;
  {
    Trainer trainer(config, {.run = first.path()});
    EXPECT_TRUE(trainer.train());
  }
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
