// A Trainer's handling of non-finite values: finds where they begin, and rolls back if configured. The device detects
// them (train_step.cpp), the host reads the flag in Trainer::read_sums.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

constexpr std::chrono::seconds kLongestSearch(60);

}  // namespace

void Trainer::go_back(std::int64_t below) {
  if (!load_good(below)) start_again();
  state_.roll_backs = roll_backs_;
  train_step_.set(state_);
}

bool Trainer::load_good(std::int64_t below) {
  SnapshotTarget mine = target(changes_);
  mine.note = {};
  for (const FilePlace& file : good_) try {
      if (!std::filesystem::exists(file.status())) continue;
      const Checkpoint checkpoint = load_snapshot(file, mine);
      const RunState state = run_state_of(checkpoint.state);
      const bool is_extra = !is_repeating_ && is_of_run(file) && !is_scheduled(state);
      if (state.step >= below || is_extra) continue;
      restore(checkpoint, mine);
      return true;
    } catch (const Error& error) {
      if (error.fault() != Fault::checkpoint) throw;
      progress_.line(error.what());
    }
  return false;
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
  state_ = {.steps_per_epoch = steps_per_epoch_};
  evaluation_.reset();
  if (!config_.init_from.empty()) initialize();
}

Trainer::NonFinite Trainer::first_non_finite(std::int64_t step) try {
  const auto begin = std::chrono::steady_clock::now();
  const Mark mark(is_repeating_);
  go_back(std::min(step, past_ < kNever ? past_ + 1 : past_));
  start_loader();
  while (state_.step + 1 < step) {
    if (std::chrono::steady_clock::now() - begin > kLongestSearch || (asks_to_stop_ && asks_to_stop_())) return {};
    train_once([](const char*) {});
  }
  const std::string array = non_finite_array(take_snapshot(config_, model_, optimizer_, state_, data_, data_values_));
  if (!array.empty()) return {fmt::format("{} after step {}", array, state_.step)};
  for (std::int64_t part = 0; part < config_.accumulate; ++part) {
    const Batch& batch = next_batch();
    if (const std::string pixel = batch.non_finite_pixel(); !pixel.empty())
      return {"the images of the batch: " + pixel, true};
    const std::string found = train_step_.first_non_finite(batch, state_.step, part);
    if (!found.empty()) return {found};
  }
  return {};
} catch (const Error&) {  // what is sought is worth less than the message it stands in
  return {};
}

void Trainer::fail_non_finite(const std::string& what, std::int64_t step) {
  saver_.wait();  // the message names the last checkpoint, and the search may begin with it
  check_saved();  // what it found comes first
  const Checkpoint now = take_snapshot(config_, model_, optimizer_, state_, data_, data_values_);
  const std::string array = non_finite_array(now),
                    saved = saved_.empty() ? "no checkpoint was saved" : "the last good checkpoint " + saved_;
  const std::int64_t logged = state_.logged;
  NonFinite found;
  if (what == kLoss) found = first_non_finite(step);
  if (what == kTestLoss && !evaluation_->non_finite_pixel.empty())
    found = {"the images of the test half: " + evaluation_->non_finite_pixel, true};
  const std::string& first = found.where;
  std::string where;
  if (!first.empty() && first != what)
    where = "; the first to be so is " + first;
  else if (first.empty() && !array.empty() && array != what)
    where = ", nor is " + array;
  const bool is_scaled = optimizer_.options().loss_scale.scale > 1;
  const std::string remedy =
      found.is_data ? "mend the dataset, or take that sample out"
      : first.ends_with("(embedding)")
          ? "its input names a row that is not there: rows are whole numbers from 0 to count - 1"
      : what == kLoss && step == 1
          ? "nothing was learnt before it, so no rate helps: scale the data or their targets, or set another init"
          : fmt::format("try {}a smaller rate, a warm-up or clip_norm", is_scaled ? "a smaller loss_scale, " : "");
  fail(Fault::non_finite, what, " is not finite at step ", step, where, " (the last good log row is of step ", logged,
       ", ", saved, "); ", remedy);
}

void Trainer::roll_back(const Error& error) {
  if (error.fault() != Fault::non_finite || !rolls_back()) throw;  // what is being handled, whole
  if (roll_backs_ == kMostRollBacks)
    throw Error(error.fault(), fmt::format("{}; the run went back {} times already", error.what(), roll_backs_));
  const std::string what = error.what();
  saver_.wait();
  ++roll_backs_;
  go_back(std::min(state_.step + 1, past_));
  past_ = state_.step;  // the next time further back, unless a checkpoint comes in between
  progress_.line(fmt::format("{}: {} of {} times, the run goes back to step {}, with {} of the schedule's rate",
                             what.substr(0, what.find(" (the last good")), roll_backs_, kMostRollBacks, state_.step,
                             state_.rate_factor()));
}

}  // namespace nixie
