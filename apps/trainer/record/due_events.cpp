// Rows, evaluations and saves by steps.
#include "nixie/apps/trainer/record/due_events.h"

#include <algorithm>

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

}  // namespace nixie
