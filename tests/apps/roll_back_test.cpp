// Runs that go back to an earlier checkpoint.
#include <regex>

#include "nixie/tests/apps/bearable_at_half.h"
#include "nixie/tests/apps/poisoned.h"
#include "nixie/tests/apps/printed.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

/// Trains to the end, or to a value that is not finite; what was printed.
std::string printed(const TrainConfig& config, const fs::path& run, bool resumes = false) {
  const Printed out;
  Trainer trainer(config, {.run = run, .out = out.file()});
  if (resumes) trainer.resume();
  std::string end;
  try {
    EXPECT_TRUE(trainer.train());
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::non_finite) << error.what();
    end = error.what();
  }
  return out.text() + end;
}

/// Fifty samples of four numbers with one of five classes.
void write_rows(const fs::path& table) {
  std::ofstream rows(table);
  for (int i = 0; i < 50; ++i)
    rows << fmt::format("{},{},{},{},{}\n", i % 7 - 3, 2 * i % 7 - 3, 3 * i % 7 - 3, 5 * i % 7 - 3, i * i % 5);
}

/// A deep net on such a table, with a schedule of its own.
TrainConfig of_table(const fs::path& table, const std::string& more) {
  return config_in(fmt::format(R"(
model: [flatten, {{linear: {{out: 8}}}}, relu, {{linear: {{out: 8}}}}, relu, {{linear: {{out: 8}}}}, relu, {{linear: {{out: 5}}}}]
data: {{arrays: {{path: {}, batch: 3, normalize: false, holdout: 0.5}}}}
optimizer: {{sgd: {{momentum: 0}}}}
log_every: 1
seed: 102
threads: 1
backend: cpu
non_finite: roll_back
)",
                               table.string()) +
                   more);
}

/// The rates of a run's rows.
std::vector<double> rates_of(const fs::path& run) {
  std::vector<double> rates;
  for (const auto& row : read_csv(run / "metrics.csv").rows) rates.push_back(std::stod(row.back()));
  return rates;
}

TEST(RollBack, ARunGoesBackWithHalfTheRate) {
  const TempFolder run;
  const std::string log = printed(bearable_at_half(), run.path());
  EXPECT_THAT(log, HasSubstr("the loss is not finite at step 7; the first to be so is the output of 5 (linear): 1 of 5 "
                             "times, the run goes back to step 0, with 0.5 of the schedule's rate\n"));
  EXPECT_EQ(saved(run / "last.h5"), 40);
  EXPECT_EQ(saved(run / "last.h5", "roll_backs"), 1);
  EXPECT_THAT(rates_of(run.path()), testing::Each(100));
  EXPECT_THAT(text_of(run / "metrics.csv"), StartsWith("epoch,step,split,loss,accuracy,learning_rate\n1,4,"));
}

// A checkpoint whose weights are finite but lost: the run that fails again goes further back.
TEST(RollBack, ACheckpointThatDoesNotHelpIsLeftBehind) {
  const TempFolder run;
  const std::string log = printed(bearable_at_half("save_every: 3\n"), run.path());
  EXPECT_THAT(log, HasParts("1 of 5 times, the run goes back to step 6, with 0.5 of the schedule's rate\n",
                            "2 of 5 times, the run goes back to step 0, with 0.25 of the schedule's rate\n"));
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

// A run never goes back to a signal's checkpoint: the undisturbed run has none. The state goes on from it all the
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
      EXPECT_FALSE(fs::exists(parts / "scheduled.h5")) << more << how;
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
  CopiesWhereItWentBack(fs::path from, fs::path to) : run(std::move(from)), copies(std::move(to)) {}
  void step_ends(Trainer&, std::int64_t step) override {
    if (step <= std::exchange(last, step)) fs::copy(run, copies / std::to_string(count++), fs::copy_options::recursive);
  }
  fs::path run, copies;
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
      const fs::path run = copies / std::to_string(i);
      further += fs::exists(run / "scheduled.h5");
      EXPECT_THAT(printed(config, run, true), Not(HasSubstr("rows are missing")));
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
  EXPECT_FAULT(non_finite,
               HasParts("the first to be so is the images of the training half", "; the run went back 5 times already"),
               Trainer(config, {.run = run.path()}).train());
  EXPECT_FALSE(fs::exists(run / "last.h5"));
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
  fs::copy_file(run / "step-10.h5", moved / "a.h5");
  const Printed out;
  const TempFolder other;
  Trainer again(config, {.run = other.path(), .out = out.file()});
  again.resume(moved / "a.h5");
  EXPECT_FAULT(non_finite, "the run went back 5 times already", again.train());
  EXPECT_THAT(out.text(), HasSubstr("5 of 5 times, the run goes back to step 10,"));
}

// Going back behind best.h5 makes no worse evaluation the best, and a course that was left is not gone back to.
TEST(RollBack, TheBestOfAllStaysAndACourseThatWasLeftIsLeft) {
  const TempFolder table;
  write_rows(table / "t.csv");
  int behind = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    const TrainConfig config = config_in(fmt::format(R"(
model: [flatten, {{linear: {{out: 8}}}}, relu, {{linear: {{out: 1}}}}]
data: {{arrays: {{path: {}, batch: 3, normalize: false, target: numbers}}}}
loss: mean_squared
optimizer: {{sgd: {{momentum: 0}}}}
schedule: {{multistep: {{rate: 0.02, factors: [3000], milestones: [0.94]}}}}
steps: 24
evaluate_every: 6
keep: 3
seed: {}
threads: 1
backend: cpu
non_finite: roll_back
)",
                                                     (table / "t.csv").string(), seed));
    const TempFolder run;
    const std::string log = printed(config, run.path());
    SCOPED_TRACE(log);
    EXPECT_THAT(log, Not(HasSubstr("rows are missing")));
    double least = INFINITY;
    const std::regex loss("test loss ([0-9.]+) \\(");
    for (auto at = std::sregex_iterator(log.begin(), log.end(), loss); at != std::sregex_iterator(); ++at)
      least = std::min(least, std::stod((*at)[1]));
    for (const char* file : {"best.h5", "last.h5"})
      EXPECT_NEAR(saved<double>(run / file, "best_score"), -least, 1e-4) << file;
    behind += log.find("best.h5 stays that of step 12, the best of all that the run did\n") != std::string::npos;
  }
  EXPECT_GT(behind, 3);
}

// The best.h5 that follows a return is written before last.h5: killed between the two, the run goes back again.
TEST(RollBack, KilledBehindItsNextBestItGoesOnBitForBit) {
  const TempFolder table, whole, copies;
  write_rows(table / "t.csv");
  const TrainConfig config =
      of_table(table / "t.csv",
               "schedule: {multistep: {rate: 1e-6, factors: [4294967296.0], milestones: [0.120]}}\nsteps: 30\n"
               "evaluate_every: 3\npatience: 4\n");
  const auto copier = std::make_shared<CopiesWhereItWentBack>(whole.path(), copies.path());
  Trainer(config, {.run = whole.path(), .callbacks = {copier}}).train();
  EXPECT_EQ(saved(whole / "best.h5"), 6);
  ASSERT_GT(copier->count, 0);
  const fs::path run = copies / std::to_string(copier->count - 1);
  EXPECT_EQ(saved(run / "last.h5"), 3);
  fs::copy_file(whole / "best.h5", run / "best.h5", fs::copy_options::overwrite_existing);
  EXPECT_THAT(printed(config, run, true), Not(HasSubstr("best.h5 stays")));
  expect_same_files(whole.path(), run, "");
}

// A resume from an earlier checkpoint leaves later ones in the folder, which are of another schedule.
TEST(RollBack, ACourseThatAResumeLeftIsNotGoneBackTo) {
  const TempFolder table, run;
  write_rows(table / "t.csv");
  printed(of_table(table / "t.csv", "schedule: {constant: {rate: 0.05}}\nsteps: 12\nevaluate_every: 2\nkeep: 20\n"),
          run.path());
  const Printed out;
  Trainer again(of_table(table / "t.csv",
                         "schedule: {multistep: {rate: 1e-6, factors: [268435456.0], milestones: [0.24]}}\nsteps: 30\n"
                         "evaluate_every: 20\nkeep: 20\n"),
                {.run = run.path(), .out = out.file()});
  again.resume(run / "step-2.h5");
  EXPECT_TRUE(again.train());
  const std::string output = out.text();
  EXPECT_THAT(output, HasParts("1 of 5 times, the run goes back to step 2,", Not(HasSubstr("rows are missing"))));
}

// Which checkpoints there are to go back to follows from the configuration that each was made under.
TEST(RollBack, ACheckpointOfAnotherScheduleIsGoneBackTo) {
  for (const bool is_asked_for : {false, true}) {  // a signal's, of a run that did not go back
    const TempFolder run;
    TrainConfig config = bearable_at_half("save_every: 6\n");
    config.non_finite = "stop";
    if (is_asked_for)
      train_until(5, run.path(), config);
    else
      EXPECT_FAULT(non_finite, "at step 7", Trainer(config, {.run = run.path()}).train());
    const std::int64_t last = saved(run / "last.h5");
    EXPECT_EQ(last, is_asked_for ? 5 : 6);
    config.non_finite = "roll_back";
    config.save_every = 50;
    EXPECT_THAT(printed(config, run.path(), true),
                HasSubstr(fmt::format("1 of 5 times, the run goes back to step {},", last)));
  }
}

// Its start is that of the file of its first weights.
TEST(RollBack, ARunThatCannotGoBackTellsBoth) {
  const TempFolder run, first;
  TrainConfig config = bearable_at_half();
  config.non_finite = "stop";
  {
    TrainConfig small = config;
    small.schedule = ConstantRate{.rate = 0.1};
    train_all(first.path(), small);
  }
  config.init_from = (first / "last.h5").string();
  train_until(5, run.path(), config);
  fs::remove(first / "last.h5");
  config.non_finite = "roll_back";
  Trainer resumed(config, {.run = run.path(), .reads_init_from = false});
  resumed.resume();
  fs::remove(run / "last.h5");
  EXPECT_FAULT(checkpoint,
               AllOf(StartsWith("the loss is not finite at step "),
                     HasSubstr("; the run cannot go back: " + config.init_from + ": cannot be read")),
               resumed.train());
}

}  // namespace
}  // namespace nixie
