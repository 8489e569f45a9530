// A Trainer's search for where non-finite values begin. The device detects them (train_step.cpp), the host reads the
// flag in Trainer::read_sums; trainer_return.cpp goes back behind them if configured.
#include "nixie/apps/trainer/non_finite.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "nixie/apps/trainer/record/run_statistics.h"
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
  const std::string array = non_finite_array(snapshot()), last = origin_.saved,
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
