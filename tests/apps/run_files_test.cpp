// A run's files without a training loop: what a save writes, sets aside and keeps, and what there is to go back to.
#include "nixie/apps/trainer/run_files.h"

#include "nixie/apps/trainer/record/run_log.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

/// The parts of a run of 23 steps, 10 of them an epoch, whose state a test moves by hand.
struct ByHand {
  ByHand(const fs::path& run, const std::string& more = "")
      : config(small_config("non_finite: roll_back\n" + more)), files(config, log) {
    files.use(run);
    files.open(state);
  }

  Checkpoint take() const { return take_snapshot(config, model, optimizer, state, data, values_of(data)); }
  SnapshotTarget target() {
    return {config, model, optimizer, data, 10, {}, [this](const std::string& note) { notes += note + "\n"; }};
  }
  std::optional<RunFiles::Unsaved> save(std::int64_t step, bool is_evaluated) {
    state.step = step;
    if (is_evaluated) state.evaluated = step;
    files.save(state, {"last.h5"}, is_evaluated ? config.keep : 0, [this] { return take(); });
    return files.end_save(state);
  }
  /// The step of a file of the folder; -1 where there is none.
  std::int64_t step_of(const char* file) const {
    if (!fs::exists(files.place(file).status())) return -1;
    return run_state_of(load_checkpoint(files.place(file)).state).step;
  }

  TrainConfig config;
  Splits data = config.data.open();
  Model model = built_model(config, {20, 1, 28, 28});
  Optimizer optimizer{model.parameters(),
                      {.rule = config.optimizer, .schedule = config.schedule},
                      {.steps_per_epoch = 10, .epochs = 2.3}};
  RunState state{.steps_per_epoch = 10};
  RunLog log;
  std::string notes;
  RunFiles files;
};

TEST(RunFiles, GoBackToTheNewestGoodCheckpoint) {
  struct Save {
    std::int64_t step;
    bool is_evaluated;  // else a signal's
  };
  const struct {
    const char* more;
    std::vector<Save> saves;
    bool is_damaged;  // last.h5, then
    std::int64_t below;
    bool any;
    std::int64_t found;  // -1: the run begins again
  } kCases[] = {
      {"", {}, false, 20, true, -1},
      {"", {{10, true}}, false, 15, false, 10},
      {"", {{10, true}}, false, 10, false, -1},
      {"", {{10, true}, {14, false}}, false, 20, false, 10},  // scheduled.h5
      {"", {{10, true}, {14, false}}, false, 20, true, 14},
      {"", {{10, true}, {20, true}}, false, 15, false, -1},
      {"keep: 2\n", {{10, true}, {20, true}}, false, 15, false, 10},
      {"keep: 2\n", {{10, true}, {20, true}}, false, 23, false, 20},
      {"keep: 1\n", {{10, true}, {20, true}}, false, 15, false, -1},
      {"", {{10, true}, {14, false}}, true, 20, true, 10},
      {"save_every: 7\n", {{7, false}, {10, true}, {14, false}}, false, 20, false, 14},
  };
  for (const auto& [more, saves, is_damaged, below, any, found] : kCases) {
    const TempFolder folder;
    ByHand run(folder.path(), more);
    for (const auto& [step, is_evaluated] : saves) EXPECT_FALSE(run.save(step, is_evaluated));
    if (is_damaged) std::ofstream(folder / "last.h5") << "damaged";
    const RunState now = run.state;
    std::int64_t step = -1;
    const bool is_restored = run.files.restore_good(
        below, any, now, run.target(),
        [&](const Checkpoint& good, const SnapshotTarget&) { step = run_state_of(good.state).step; });
    EXPECT_EQ(step, found) << more << saves.size() << " below " << below;
    EXPECT_EQ(is_restored, found >= 0);
    EXPECT_EQ(run.notes.find("last.h5 is no nixie checkpoint") != std::string::npos, is_damaged) << run.notes;
  }
}

TEST(RunFiles, LastIsOfTheStepThatTheRunWentBackTo) {
  const TempFolder folder;
  ByHand run(folder.path());
  EXPECT_FALSE(run.files.keep_last(0)) << "there is none of this run";
  run.save(10, true);
  run.save(20, true);
  run.state.step = 10;
  run.files.save_return(10, [&] { return run.take(); });
  EXPECT_EQ(run.step_of("last.h5"), 10);
  EXPECT_EQ(run.step_of("scheduled.h5"), 20) << "its course may go on from it";
  run.state.step = 11;
  run.files.save_return(11, [&] { return run.take(); });
  EXPECT_EQ(run.step_of("last.h5"), 10) << "counts no row behind the step";
  run.save(20, true);
  EXPECT_EQ(run.step_of("last.h5"), 20);
  EXPECT_EQ(run.step_of("scheduled.h5"), -1);
  EXPECT_TRUE(run.files.keep_last(20));
}

TEST(RunFiles, AStateThatIsNotFiniteIsNotSaved) {
  const TempFolder folder;
  ByHand run(folder.path());
  run.save(10, true);
  const Variable weights = run.model.parameters().trainable()[0];
  weights.set(Array::from(std::vector<float>(static_cast<std::size_t>(weights.shape().size()), NAN), weights.shape()));
  run.state.went_back_to = 10;
  const auto unsaved = run.save(20, true);
  ASSERT_TRUE(unsaved);
  EXPECT_THAT(unsaved->array, HasSubstr(weights.name()));
  EXPECT_EQ(unsaved->step, 20);
  EXPECT_EQ(run.state.went_back_to, 10) << "no checkpoint of the schedule came since";
  EXPECT_EQ(run.step_of("last.h5"), 10);
  EXPECT_FALSE(run.files.end_save(run.state)) << "it is reported once";
}

TEST(RunFiles, BestMayBeMissingOrDamaged) {
  const TempFolder folder;
  ByHand run(folder.path());
  EXPECT_THAT(run.files.fault_of_best(run.model), EndsWith("best.h5 is missing"));
  save_checkpoint(run.take(), run.files.place("best.h5"));
  EXPECT_EQ(run.files.fault_of_best(run.model), "");
  fs::resize_file(folder / "best.h5", 100);
  EXPECT_THAT(run.files.fault_of_best(run.model), HasSubstr("best.h5"));
}

}  // namespace
}  // namespace nixie
