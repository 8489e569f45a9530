// A Trainer's handling of non-finite values: finds where they begin, and rolls back if configured. The device detects
// them (train_step.cpp), the host reads the flag in Trainer::read_sums.
#include "nixie/apps/trainer/non_finite.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

constexpr std::chrono::seconds kLongestSearch(60);

}  // namespace

Tensor finite_samples(const Tensor& values) {
  const Tensor finite = cast(is_finite(values), Dtype::u8);
  Axes others;
  for (int axis = 1; axis < values.rank(); ++axis) others.push_back(axis);
  return others.empty() ? finite : min(finite, others, false);
}

NonFinite first_non_finite(Backend& backend, PrecisionPolicy precision, const Batch& batch, const std::string& part,
                           const std::map<std::string, Tensor>& inputs, const WatchedForward& forward) try {
  constexpr const char* kMend = "mend the dataset, or take that sample out";
  if (const auto pixel = batch.non_finite_pixel(); pixel && part.empty())
    return {"the sample itself, which has " + pixel->second, kMend};
  else if (pixel)
    return {fmt::format("the images of {}: sample {} has {}", part, batch.indices[pixel->first], pixel->second), kMend};
  const auto samples = static_cast<std::int64_t>(batch.indices.size());
  std::vector<std::string> names;
  Step watched(
      backend,
      [&](const Inputs& in) {
        Outputs finite;
        const auto watch = [&](const std::string& name, const Tensor& value) {
          if (!is_floating(value.dtype())) return;
          const bool is_of_samples = value.rank() > 0 && value.shape()[0] == samples;
          finite[std::to_string(names.size())] =
              is_of_samples ? finite_samples(value) : min(cast(is_finite(value), Dtype::u8));
          names.push_back(name);
        };
        names.clear();
        const auto layer = [&](const Tensor& result) {
          const std::string place = Scope::prefix();  // `2.conv (conv2d): `
          watch("the output of " + place.substr(0, place.rfind(": ")), result);
        };
        watch(NonFinite::kLoss, forward(in, layer));
        return finite;
      },
      precision);
  const Outputs finite = watched(inputs);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto flags = finite.at(std::to_string(i)).to_vector<std::uint8_t>();
    const auto bad = std::ranges::find(flags, 0);
    if (bad == flags.end()) continue;
    NonFinite found{.where = names[i]};
    if (names[i].ends_with("(embedding)"))
      found.remedy = "its input names a row that is not there: rows are whole numbers from 0 to count - 1";
    const bool is_known = std::ssize(flags) == samples,
               tells = !found.remedy.empty() || std::ranges::count(flags, 0) < samples;
    if (!part.empty() && is_known && tells)
      found.where +=
          fmt::format(" for sample {} of {}", batch.indices[static_cast<std::size_t>(bad - flags.begin())], part);
    return found;
  }
  return {};
} catch (const Error& error) {  // the search is worth less than the message that it is for
  return {.failure = error.what()};
}

void Trainer::go_back(std::int64_t below) {
  const std::vector<std::int64_t> returns = state_.returns;  // a checkpoint has those before it
  if (!load_good(below)) start_again();
  state_.returns = returns;
  train_step_.set(state_);
}

bool Trainer::is_extra(const FilePlace& file, const Checkpoint& header, const SnapshotTarget& target) const {
  if (!is_of_run(file)) return false;
  const TrainConfig own = config_of(file.path(), header, target).value_or(config_);
  return goes_back(own) && !is_scheduled(own, run_state_of(header.state));
}

bool Trainer::is_past(const FilePlace& file, const RunState& state) const {
  const bool has_rows = !record_ || !agrees_with_table_ || !is_of_run(file) ||
                        record_->began_with(state.metrics_bytes, state.metrics_checksum);
  return state_.comes_from(state) && has_rows;
}

bool Trainer::load_good(std::int64_t below) {
  SnapshotTarget mine = target(changes_);
  mine.note = {};
  const auto pass_over = [&](const Error& error) {
    if (error.fault() != Fault::checkpoint) throw;
    progress_.line(error.what());
  };
  std::multimap<std::int64_t, FilePlace, std::greater<>> newest_first;
  for (const FilePlace& file : good_) try {
      if (!std::filesystem::exists(file.status())) continue;
      const Checkpoint header = load_checkpoint(file, {.header_only = true});
      const RunState state = run_state_of(header.state);
      if (state.step < below && is_past(file, state) && (is_repeating_ || !is_extra(file, header, mine)))
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
  state_ = {.steps_per_epoch = steps_per_epoch_, .returns = state_.returns};
  evaluation_.reset();
  if (!config_.init_from.empty()) initialize();
}

void Trainer::keep_best_score() try {
  if (!writes() || lacks_best_ || !std::filesystem::exists(place("best.h5").status())) return;
  SnapshotTarget mine = target(changes_);
  mine.note = {};
  const RunState best = state_in(load_checkpoint(place("best.h5"), {.header_only = true}), mine);
  // A run that was killed behind this return may have written one that is still to come.
  if (best.best_score <= state_.best_score || !state_.follows(best)) return;
  state_.best_score = best.best_score;
  progress_.line(fmt::format("best.h5 stays that of step {}, the best of all that the run did", best.step));
} catch (const Error& error) {
  if (error.fault() != Fault::checkpoint) throw;  // else the next resume tells that it is damaged
}

NonFinite Trainer::first_non_finite(std::int64_t step) try {
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
    const NonFinite found = train_step_.first_non_finite(batch, state_.step, part);
    if (!found.where.empty() || !found.failure.empty()) return found;
  }
  return {};
} catch (const Error& error) {  // as above
  return {.failure = error.what()};
}

void Trainer::fail_non_finite(const std::string& what, std::int64_t step) {
  saver_.wait();  // the message names the last checkpoint, and the search may begin with it
  check_saved();  // what it found comes first
  const Checkpoint now = take_snapshot(config_, model_, optimizer_, state_, data_, data_values_);
  const std::string array = non_finite_array(now),
                    saved = saved_.empty() ? "no checkpoint was saved" : "the last good checkpoint " + saved_;
  const std::int64_t logged = state_.logged;
  const NonFinite found = what == NonFinite::kLoss ? first_non_finite(step)
                          : what == kTestLoss      ? evaluation_->non_finite
                                                   : NonFinite{};
  std::string where = found.text();
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

void Trainer::roll_back(const Error& error) {
  if (error.fault() != Fault::non_finite || !rolls_back()) throw;  // what is being handled, whole
  if (std::ssize(state_.returns) == kMostRollBacks)
    throw Error(error.fault(), fmt::format("{}; the run went back {} times already", error.what(), kMostRollBacks));
  const std::string what = error.what(), short_what = what.substr(0, what.find(" (the last good"));
  saver_.wait();
  try {
    go_back(std::min(state_.step + 1, past_));
  } catch (const Error& cause) {
    throw Error(cause.fault(), fmt::format("{}; the run cannot go back: {}", short_what, cause.what()));
  }
  past_ = state_.step;  // the next time further back, unless a checkpoint comes in between
  keep_best_score();
  state_.returns.push_back(state_.step);
  train_step_.set(state_);
  save_where_it_went_back();
  progress_.line(fmt::format("{}: {} of {} times, the run goes back to step {}, with {} of the schedule's rate",
                             short_what, state_.returns.size(), kMostRollBacks, state_.step, state_.rate_factor()));
}

}  // namespace nixie
