// A state that was saved by the schedule ends a return: the run may go back to it again.
#include "nixie/apps/trainer/record/course.h"

#include <algorithm>
#include <iterator>

#include "nixie/apps/trainer/record/run_folder.h"

namespace nixie {
namespace {

/// The first step after `step` that is followed by an evaluation.
std::int64_t next_evaluation(const TrainConfig& config, const RunState& state, std::int64_t step) {
  const std::int64_t every = config.evaluate_every > 0 ? config.evaluate_every : state.steps_per_epoch;
  return std::min((step / every + 1) * every, config.total_steps(state.steps_per_epoch));
}

}  // namespace

bool is_evaluation_due(const TrainConfig& config, const RunState& state) {
  return next_evaluation(config, state, state.step - 1) == state.step;
}

// Means over few steps are noisy, so the row of an evaluation takes over a row that would leave it less than half.
bool is_row_due(const TrainConfig& config, const RunState& state) {
  return state.step - state.logged >= config.log_every &&
         2 * (next_evaluation(config, state, state.step) - state.step) >= config.log_every;
}

bool is_scheduled(const TrainConfig& config, const RunState& state) {
  return state.evaluated == state.step ||
         (!is_evaluation_due(config, state) && config.save_every > 0 && state.step % config.save_every == 0);
}

bool is_out_of_patience(const TrainConfig& config, const RunState& state) {
  return config.patience > 0 && state.evaluations_since_best >= config.patience;
}

bool may_lack_kept(const RunState& state) {
  return state.step > 0 && state.evaluated == state.step && state.went_back_to < 0;
}

bool follows(const RunState& now, const RunState& earlier) {
  return std::ranges::mismatch(now.returns, earlier.returns).in2 == earlier.returns.end();
}

bool comes_from(const RunState& now, const RunState& earlier) {
  return follows(now, earlier) && std::all_of(now.returns.begin() + std::ssize(earlier.returns), now.returns.end(),
                                              [&](std::int64_t to) { return earlier.step <= to; });
}

std::int64_t return_limit(const RunState& state) {
  return state.went_back_to < 0 ? state.step + 1 : std::min(state.step + 1, state.went_back_to);
}

std::int64_t search_limit(const RunState& state, std::int64_t step) {
  return state.went_back_to < 0 ? step : std::min(step, state.went_back_to + 1);
}

void count_row(RunState& state) {
  state.logged = state.step;
  state.loss_sum = state.accuracy_sum = 0;
  state.skipped = 0;
}

bool count_evaluation(RunState& state, double score, bool replaces_best) {
  const bool is_best = replaces_best || score > state.best_score;
  state.evaluated = state.step;
  if (is_best) state.best_score = score;
  state.evaluations_since_best = is_best ? 0 : state.evaluations_since_best + 1;
  return is_best;
}

void count_return(RunState& state) {
  state.returns.push_back(state.step);
  state.went_back_to = state.step;
}

bool is_kept_key(const std::string& key) { return key == "model" || key == "data" || key == "optimizer"; }

bool Origin::owes_config() const { return !has_saved() && std::ranges::any_of(changes, is_kept_key); }

// Until it has saved something, other checkpoints in its folder are of another run, unless it was resumed there.
std::vector<FilePlace> Origin::candidates(const Folder* run) const {
  const bool begins_with_file = file && !has_saved();
  std::vector<FilePlace> files;
  if (begins_with_file) files.push_back(*file);
  if (run && (!begins_with_file || is_same_file(*file, {*run, file->name()})))
    std::ranges::move(run_checkpoints(*run), std::back_inserter(files));
  return files;
}

// A run that goes on from an earlier checkpoint cuts the rows after it, which a later last.h5 counts. That comes first.
Replacements Origin::changes_of_checkpoints(const Folder& run) const {
  const FilePlace at(run, "last.h5");
  Replacements made;
  if (last && last->is_scheduled) made.remove({run, kScheduledCheckpoint});  // of a process that was killed in a save
  if (!last && file && std::filesystem::exists(at.status())) made.link(*file, at);
  return made;
}

}  // namespace nixie
