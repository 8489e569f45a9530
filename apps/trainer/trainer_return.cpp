// A Trainer goes back to an earlier state (non_finite: roll_back): which one, at which rate, and what last.h5 is then.
#include <algorithm>
#include <map>

#include "nixie/apps/trainer/trainer.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {

void Trainer::roll_back(const Error& error) {
  if (error.fault() != Fault::non_finite || !rolls_back(config_)) throw;  // what is being handled, whole
  if (std::ssize(state_.returns) == kMostRollBacks)
    throw Error(error.fault(), fmt::format("{}; the run went back {} times already", error.what(), kMostRollBacks));
  const std::string what = error.what(), short_what = what.substr(0, what.find(" (the last good"));
  end_save();
  try {
    go_back(return_limit(state_));
  } catch (const Error& cause) {
    throw Error(cause.fault(), fmt::format("{}; the run cannot go back: {}", short_what, cause.what()));
  }
  keep_best_score();
  options_.world.copy_from_first(&state_.best_score, sizeof state_.best_score);  // they end the run by the same one
  count_return(state_);
  train_step_.set(state_);
  save_where_it_went_back();
  progress_.line(fmt::format("{}: {} of {} times, the run goes back to step {}, with {} of the schedule's rate",
                             short_what, state_.returns.size(), kMostRollBacks, step(), state_.rate_factor()));
}

void Trainer::go_back(std::int64_t below, bool any) {
  const RunState left = state_;
  train_step_.forget_parts();  // of a step whose batches could not be read
  if (options_.world.is_first() && !load_good(below, any)) start_again();
  take_state_of_first();
  state_.returns = left.returns;  // a checkpoint has those before it
  state_.went_back_to = left.went_back_to;
  train_step_.set(state_);
}

bool Trainer::load_good(std::int64_t below, bool any) {
  SnapshotTarget mine = target(origin_.changes);
  mine.note = {};
  const auto pass_over = [&](const Error& error) {
    if (error.fault() != Fault::checkpoint) throw;
    progress_.line(error.what());
  };
  std::multimap<std::int64_t, FilePlace, std::greater<>> newest_first;
  for (const FilePlace& file : origin_.candidates(folder())) try {
      if (!std::filesystem::exists(file.status())) continue;
      const Checkpoint header = load_checkpoint(file, {.header_only = true});
      const RunState state = run_state_of(header.state);
      // A resume from an earlier checkpoint leaves those behind it in the folder: their rows were cut.
      const bool has_rows = !record_ || !is_of_run(file) || record_->began_with(state);
      if (state.step < below && comes_from(state_, state) && has_rows && (any || !is_extra(file, header, mine)))
        newest_first.emplace(state.step, file);
    } catch (const Error& error) {
      pass_over(error);
    }
  for (const auto& [step, file] : newest_first) try {
      restore(load_snapshot(file, mine), mine);
      return true;
    } catch (const Error& error) {
      pass_over(error);
    }
  return false;
}

bool Trainer::is_extra(const FilePlace& file, const Checkpoint& header, const SnapshotTarget& target) const {
  if (!is_of_run(file)) return false;
  const TrainConfig own = config_of(file.path(), header, target).value_or(config_);
  return rolls_back(own) && !is_scheduled(own, run_state_of(header.state));
}

// Everything becomes what it was at first, which follows from the configuration.
void Trainer::start_again() {
  const Model model = built_model(config_, model_.batch_shape());
  const Optimizer optimizer(model.parameters(), optimizer_.options(), run_length());
  const auto copy = [](const Parameters& from, const Parameters& to) {
    for (std::size_t i = 0; i < to.all().size(); ++i) to.all()[i].set(from.all()[i].array());
  };
  copy(model.parameters(), model_.parameters());
  copy(optimizer.state(), optimizer_.state());
  if (averages_) averages_->restart();
  state_ = {.steps_per_epoch = steps_per_epoch()};
  evaluation_.reset();
  if (!config_.init_from.empty()) initialize();
}

// Larger is better.
double Trainer::score(const Evaluation& result) const {
  if (config_.best_by == "accuracy" && !std::isnan(result.accuracy)) return result.accuracy;
  if (config_.best_by == "accuracy" || config_.best_by == "loss") return -result.loss;
  const auto found = std::find_if(result.metrics.begin(), result.metrics.end(),
                                  [&](const auto& metric) { return metric.first == config_.best_by; });
  const AnyMetric& metric = config_.metrics[static_cast<std::size_t>(found - result.metrics.begin())];
  return metric.is_error() ? -found->second : found->second;
}

void Trainer::keep_best_score() try {
  if (!writes() || origin_.lacks_best || !std::filesystem::exists(place("best.h5").status())) return;
  SnapshotTarget mine = target(origin_.changes);
  mine.note = {};
  const RunState best = state_in(load_checkpoint(place("best.h5"), {.header_only = true}), mine);
  // A run that was killed behind this return may have written one that is still to come.
  if (best.best_score <= state_.best_score || !follows(state_, best)) return;
  state_.best_score = best.best_score;
  progress_.line(fmt::format("best.h5 stays that of step {}, the best of all that the run did", best.step));
} catch (const Error& error) {
  if (error.fault() != Fault::checkpoint) throw;  // else the next resume tells that it is damaged
}

// The rows behind this step are cut next. A last.h5 that counts them is set aside, so that a resume begins here.
void Trainer::save_where_it_went_back() {
  if (!writes() || last_step() <= step()) return;
  saver_.free_room();
  const Checkpoint checkpoint = snapshot();
  lock_->renew();
  const FilePlace last = place("last.h5"), aside = place(kScheduledCheckpoint);
  if (origin_.last && origin_.last->is_scheduled) link_durably(last, aside), origin_.saved = aside.path().string();
  if (origin_.owes_config()) write_text(place("config.yaml"), checkpoint.config);
  save_checkpoint(checkpoint, last);
  origin_.last = Origin::Last{.is_scheduled = false, .is_own = true};
}

std::int64_t Trainer::last_step() const try {
  const FilePlace last = place("last.h5");
  if (!std::filesystem::exists(last.status())) return -1;
  return run_state_of(load_checkpoint(last, {.header_only = true}).state).step;
} catch (const Error& error) {
  if (error.fault() != Fault::checkpoint) throw;
  return -1;  // a damaged one counts nothing
}

}  // namespace nixie
