// After a value that is not finite a Trainer goes back to an earlier state (non_finite: roll_back), or looks for where
// the value comes from and ends the run.
#include <chrono>

#include "nixie/apps/trainer/record/statistics_lines.h"
#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

constexpr std::chrono::seconds kLongestSearch(60);

}  // namespace

void Trainer::roll_back(const Error& error) {
  if (error.fault() != Fault::non_finite || !rolls_back(config_)) throw;  // what is being handled, whole
  if (std::ssize(state_.returns) == kMostRollBacks)
    throw Error(error.fault(), fmt::format("{}; the run went back {} times already", error.what(), kMostRollBacks));
  const std::string what = error.what(), short_what = what.substr(0, what.find(" (the last good"));
  files_.end_save(state_);
  try {
    go_back(return_limit(state_));
  } catch (const Error& cause) {
    throw Error(cause.fault(), fmt::format("{}; the run cannot go back: {}", short_what, cause.what()));
  }
  files_.keep_best_score(state_, target(files_.origin().changes));
  options_.world.copy_from_first(&state_.best_score, sizeof state_.best_score);  // they end the run by the same one
  count_return(state_);
  train_step_.set(state_);
  files_.save_return(step(), [this] { return snapshot(); });
  progress_.line(fmt::format("{}: {} of {} times, the run goes back to step {}, with {} of the schedule's rate",
                             short_what, state_.returns.size(), kMostRollBacks, step(), state_.rate_factor()));
}

void Trainer::go_back(std::int64_t below, bool any) {
  const RunState left = state_;
  train_step_.forget_parts();  // of a step whose batches could not be read
  const auto restores = [this](const Checkpoint& good, const SnapshotTarget& mine) { restore(good, mine); };
  if (options_.world.is_first() && !files_.restore_good(below, any, state_, target(files_.origin().changes), restores))
    start_again();
  take_state_of_first();
  state_.returns = left.returns;  // a checkpoint has those before it
  state_.went_back_to = left.went_back_to;
  train_step_.set(state_);
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

NonFinite Trainer::first_non_finite(std::int64_t step) try {
  if (!options_.world.is_alone()) return {};  // the ranks would look for different times
  const auto begin = std::chrono::steady_clock::now();
  go_back(search_limit(state_, step), true);
  start_loader();
  while (state_.step + 1 < step) {
    if (std::chrono::steady_clock::now() - begin > kLongestSearch || is_asked_to_stop()) return {};
    train_step_([this]() -> const Batch& { return next_batch(); }, state_.step);
    ++state_.step;
  }
  const std::string array = non_finite_array(snapshot());
  if (!array.empty()) return {fmt::format("{} after step {}", array, state_.step)};
  for (std::int64_t part = 0; part < config_.accumulate; ++part) {
    const Batch& batch = next_batch();
    const NonFinite found = train_step_.first_non_finite(batch, state_.step, part);
    if (!found.where.empty() || !found.failure.empty()) return found;
  }
  return {};
} catch (const Error& error) {  // as above
  return {.failure = error.what()};
}

void Trainer::fail_non_finite(const std::string& what, std::int64_t step) {
  check_saved();  // what it found comes first; the message names the last checkpoint, which the search may begin with
  const std::string array = non_finite_array(snapshot()), last = files_.origin().saved,
                    saved = last.empty() ? "no checkpoint was saved" : "the last good checkpoint " + last;
  const std::int64_t logged = state_.logged;
  const std::string overflow = overflow_text(statistics());
  const NonFinite found = what == NonFinite::kLoss ? first_non_finite(step)
                          : what == kTestLoss      ? evaluation_->non_finite
                                                   : NonFinite{};
  std::string where = found.text() + (overflow.empty() ? "" : "; " + overflow);
  if (found.where.empty() && !array.empty() && array != what) where = ", nor is " + array + where;
  const bool is_scaled = optimizer_.options().loss_scale.scale > 1;
  const std::string remedy =
      !found.remedy.empty() ? found.remedy
      : what == NonFinite::kLoss && step == 1
          ? "nothing was learnt before it, so no rate helps: scale the data or their targets, or set another init"
          : fmt::format("try {}a smaller rate, a warm-up or clip_norm", is_scaled ? "a smaller loss_scale, " : "");
  fail(Fault::non_finite, what, " is not finite at step ", step, where, " (the last good log row is of step ", logged,
       ", ", saved, "); ", remedy);
}

}  // namespace nixie
