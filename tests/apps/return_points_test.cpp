// The events of a run and the checkpoints to go back to, without a trainer: what is due, the state after each event.
#include "nixie/apps/trainer/record/return_points.h"

#include "nixie/apps/trainer/record/due_events.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

TEST(DueEvents, AtAStep) {
  const struct {
    const char* more;  // of 23 steps, 10 of them an epoch, rows every 4
    RunState state;
    std::string due;  // evaluation, row, save
  } kCases[] = {
      {"", {.step = 9, .logged = 8}, ""},
      {"", {.step = 10, .logged = 8}, "evaluation"},
      {"", {.step = 10, .logged = 8, .evaluated = 10}, "evaluation save"},
      {"", {.step = 23, .logged = 20}, "evaluation"},
      {"", {.step = 4}, "row"},
      {"", {.step = 8, .logged = 4}, "row"},
      {"", {.step = 19, .logged = 12}, ""},  // the evaluation's row takes it over
      {"save_every: 3\n", {.step = 9, .logged = 8}, "save"},
      {"save_every: 5\n", {.step = 10, .logged = 8}, "evaluation"},  // saved once it is evaluated
      {"evaluate_every: 6\n", {.step = 10, .logged = 8}, ""},
      {"evaluate_every: 6\n", {.step = 12, .logged = 8}, "evaluation row"},
      {"evaluate_every: 50\n", {.step = 10, .logged = 8}, ""},
      {"evaluate_every: 50\n", {.step = 23, .logged = 20}, "evaluation"},
  };
  for (auto [more, state, due] : kCases) {
    state.steps_per_epoch = 10;
    const TrainConfig config = small_config(more);
    std::string found;
    for (const auto& [name, is_due] :
         {std::pair("evaluation", is_evaluation_due(config, state)), std::pair("row", is_row_due(config, state)),
          std::pair("save", is_scheduled(config, state))})
      if (is_due) found += (found.empty() ? "" : " ") + std::string(name);
    EXPECT_EQ(found, due) << more << state.step;
  }
}

// Returns are the steps gone back to; a checkpoint holds those that were before it.
TEST(ReturnPoints, WhichStatesARunComesFrom) {
  const struct {
    std::vector<std::int64_t> now, earlier;
    std::int64_t step;  // of the earlier state
    bool follows, comes_from;
  } kCases[] = {
      {{}, {}, 7, true, true},       {{6}, {}, 6, true, true},   // it is the state gone back to
      {{6}, {}, 3, true, true},      {{6}, {}, 7, true, false},  // of the course that was left
      {{6}, {6}, 9, true, true},                                 // saved behind the return
      {{6, 0}, {6}, 9, true, false}, {{6, 0}, {}, 3, true, false}, {{6, 0}, {6}, 0, true, true},
      {{3, 9}, {3}, 9, true, true},  {{3, 9}, {}, 9, true, false},  // the second's step, before the first's course
      {{6}, {3}, 2, false, false},                                  // another run's
      {{}, {3}, 2, false, false},                                   // of what is still to come
  };
  for (const auto& [now, earlier, step, is_earlier, is_past] : kCases) {
    const RunState state{.step = 20, .returns = now}, before{.step = step, .returns = earlier};
    const std::string row = fmt::format("{} {} {}", fmt::join(now, ","), fmt::join(earlier, ","), step);
    EXPECT_EQ(follows(state, before), is_earlier) << row;
    EXPECT_EQ(comes_from(state, before), is_past) << row;
  }
}

TEST(ReturnPoints, HowFarBackARunGoes) {
  const struct {
    RunState state;
    std::int64_t limit, search_of_9;
  } kCases[] = {
      {{.step = 9}, 10, 9},
      {{.step = 9, .returns = {6}}, 10, 9},                    // saved since it went back
      {{.step = 9, .returns = {6}, .went_back_to = 6}, 6, 7},  // that one did not help, but the search begins there
      {{.step = 9, .returns = {6, 0}, .went_back_to = 0}, 0, 1},
      {{.step = 2, .returns = {6}, .went_back_to = 6}, 3, 7},  // a search that ended early
  };
  for (const auto& [state, limit, search] : kCases) {
    EXPECT_EQ(return_limit(state), limit) << state.step << " " << state.went_back_to;
    EXPECT_EQ(search_limit(state, 9), search) << state.step << " " << state.went_back_to;
  }
}

TEST(ReturnPoints, EventsOneAfterAnother) {
  TrainConfig config = small_config();
  config.patience = 2;
  RunState state{.steps_per_epoch = 10};
  EXPECT_FALSE(may_lack_kept(state));
  const struct {
    std::int64_t step;
    double score;
    bool replaces_best, is_best, ends;
  } kEvaluations[] = {
      {10, -2.5, false, true, false}, {20, -3, false, false, false},
      {30, -2.5, false, false, true}, {40, -9, true, true, false},  // best.h5 was lost
      {50, -8, false, true, false},
  };
  for (const auto& [step, score, replaces_best, is_best, ends] : kEvaluations) {
    state.step = step;
    EXPECT_EQ(count_evaluation(state, score, replaces_best), is_best) << step;
    EXPECT_EQ(is_out_of_patience(config, state), ends) << step;
    EXPECT_TRUE(may_lack_kept(state)) << step;
  }
  EXPECT_EQ(state.best_score, -8);
  state.step = 54, state.loss_sum = 3, state.accuracy_sum = 2, state.skipped = 1;
  EXPECT_FALSE(may_lack_kept(state));
  count_row(state);
  EXPECT_EQ(state.logged, 54);
  EXPECT_EQ(state.loss_sum + state.accuracy_sum + static_cast<double>(state.skipped), 0);
  state.step = 50;
  count_return(state);
  EXPECT_FALSE(may_lack_kept(state)) << "it was kept before the run went on";
  state.step = 40;
  count_return(state);
  EXPECT_THAT(state.returns, ElementsAre(50, 40));
  EXPECT_EQ(state.went_back_to, 40);
  EXPECT_EQ(state.rate_factor(), 0.25);
}

// A run's earlier states and the changes of its folder as it begins, by where it comes from.
TEST(Origin, OfARunThatBeginsOrGoesOn) {
  const TempFolder run, other;
  for (const char* name : {"last.h5", "scheduled.h5", "best.h5", "step-10.h5"}) write_text(run / name, name);
  write_text(other / "last.h5", "other");
  const Origin::Last found{.is_scheduled = true, .is_own = false}, asked_for{.is_scheduled = false, .is_own = false},
      own{.is_scheduled = true, .is_own = true};
  const struct {
    std::string what;
    Origin origin;
    std::size_t candidates;
    bool owes_config;
    const char *last, *aside;  // what the files hold once the changes are made
  } kCases[] = {
      {"begins", {}, 4, false, "last.h5", "scheduled.h5"},
      {"from last.h5", {.file = run / "last.h5", .last = found}, 5, false, "last.h5", nullptr},
      {"from a signal's", {.file = run / "last.h5", .last = asked_for}, 5, false, "last.h5", "scheduled.h5"},
      {"from an earlier one", {.file = run / "step-10.h5"}, 5, false, "step-10.h5", "scheduled.h5"},
      {"from another folder", {.file = other / "last.h5"}, 1, false, "other", "scheduled.h5"},
      {"and saved since", {.file = other / "last.h5", .last = own}, 4, false, "last.h5", nullptr},
      {"with another net",
       {.file = run / "last.h5", .changes = {"steps", "model"}, .last = found},
       5,
       true,
       "last.h5",
       nullptr},
      {"of more steps", {.file = run / "last.h5", .changes = {"steps"}, .last = found}, 5, false, "last.h5", nullptr},
      {"and saved since", {.file = run / "last.h5", .changes = {"model"}, .last = own}, 4, false, "last.h5", nullptr},
  };
  for (const auto& [what, origin, candidates, owes_config, last, aside] : kCases) {
    for (const char* name : {"last.h5", "scheduled.h5"}) write_text(run / name, name);
    const Folder folder(run.path());
    EXPECT_EQ(origin.candidates(&folder).size(), candidates) << what;
    EXPECT_EQ(origin.candidates(nullptr).size(), origin.file && !origin.has_saved() ? 1u : 0u) << what;
    EXPECT_EQ(origin.owes_config(), owes_config) << what;
    origin.changes_of_checkpoints(folder).make();
    EXPECT_EQ(text_of(run / "last.h5"), last) << what;
    EXPECT_EQ(fs::exists(run / "scheduled.h5"), aside != nullptr) << what;
  }
}

}  // namespace
}  // namespace nixie
