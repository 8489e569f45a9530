// Ranges in one table; numbers that depend on each other beside it.
#include "nixie/apps/trainer/record/run_state.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "nixie/core/base/fields.h"

namespace nixie {
namespace {

constexpr const char* kOldScore = "best_accuracy";  // of older checkpoints, which knew no other score
constexpr std::int64_t kMost = 1'000'000'000'000'000;
constexpr double kLargest = std::numeric_limits<float>::max();

using Refuse = std::function<void(const std::string& what)>;

/// A value of the kind that each name in /state has.
Checkpoint::Values known_values() {
  Checkpoint::Values known =
      values_of(RunState{.steps_per_epoch = 1, .metrics_checksum = "0", .returns = {0}, .went_back_to = 0});
  known.insert({{kOldScore, 0.0},
                {"train_samples", std::int64_t{0}},
                {"test_samples", std::int64_t{0}},
                {"train_data", std::string{}},
                {"test_data", std::string{}}});
  return known;
}

/// `12 6`: {12, 6}. Nothing where the text is no such list.
std::optional<std::vector<std::int64_t>> numbers_in(const std::string& text) {
  std::vector<std::int64_t> numbers;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    const auto [next, error] = std::from_chars(at, end, numbers.emplace_back());
    if (error != std::errc{} || numbers.back() < 0 || (next < end && *next != ' ')) return std::nullopt;
    at = next + 1;
  }
  return numbers;
}

void check_names(const Checkpoint::Values& state, const Refuse& refuse) {
  const Checkpoint::Values all = known_values();
  for (const auto& [name, value] : state) {
    const bool is_shared = name.starts_with("shared.");
    const auto known = all.find(name);
    if (!is_shared && known == all.end()) refuse("/state holds the unknown " + field_text(name));
    if (!is_shared && known->second.index() != value.index()) refuse("/state holds " + name + " as another kind");
  }
}

void check_numbers(const Checkpoint::Values& state, const Refuse& refuse) {
  const auto number = [&](const char* name, std::int64_t least, std::int64_t most) {
    const auto value = value_or<std::int64_t>(state, name, least);
    if (value < least || value > most)
      refuse(fmt::format("/state holds {} {}, expected {} to {}", name, value, least, most));
    return value;
  };
  const std::int64_t steps = number("step", 0, kMost), of_epoch = number("steps_per_epoch", 1, kMost),
                     logged = number("logged", 0, steps);
  number("skipped", 0, steps - logged);
  for (const char* name : {"evaluated", "evaluations_since_best"}) number(name, 0, steps);
  const std::int64_t roll_backs = number("roll_backs", 0, kMostRollBacks);
  const auto text = value_or<std::string>(state, "returns", {});
  if (const auto returns = numbers_in(text);
      state.contains("returns") && (!returns || std::ssize(*returns) != roll_backs))
    refuse(fmt::format("/state holds returns {}, expected {} steps", field_text(text), roll_backs));
  number("went_back_to", 0, steps);
  number("metrics_bytes", -1, kMost);
  for (const char* name : {"train_samples", "test_samples"}) number(name, 0, kMost);
  for (const auto& [name, expected] : {std::pair("epoch", steps / of_epoch), std::pair("batch", steps % of_epoch)})
    if (const std::int64_t value = value_or(state, name, expected); value != expected)
      refuse(fmt::format("/state holds {} {}, expected {} at step {} of {} an epoch", name, value, expected, steps,
                         of_epoch));
  // The device adds both up in f32.
  if (const double sum = value_or(state, "loss_sum", 0.0); !(std::abs(sum) <= kLargest))
    refuse(fmt::format("/state holds loss_sum {}, expected a finite f32", sum));
  const std::int64_t summed = steps - logged;
  if (const double sum = value_or(state, "accuracy_sum", 0.0);
      !(sum >= 0 && sum <= 1.00001 * static_cast<double>(summed)))
    refuse(fmt::format("/state holds accuracy_sum {}, expected 0 to {}", sum, summed));
  // Where none is known yet, no evaluation was worse.
  const bool may_be_none = value_or<std::int64_t>(state, "evaluations_since_best", 0) == 0;
  for (const char* name : {"best_score", kOldScore})
    if (const double score = value_or(state, name, 0.0);
        !(std::abs(score) <= kLargest) && !(may_be_none && score == RunState{}.best_score))
      refuse(fmt::format("/state holds {} {}, expected a finite f32", name, score));
}

/// Predictions normalise with these in f32, numbers as multiples of 255 (data/preparation.cpp).
void check_preparation(const Checkpoint& header, const Refuse& refuse) {
  constexpr double kLongest = std::numeric_limits<std::int32_t>::max(), kSmallest = std::numeric_limits<float>::min();
  const std::vector<double>& shape = header.input_shape;
  if (!shape.empty() && shape.size() != 3)
    refuse(fmt::format("its input_shape has {} numbers, expected 3", shape.size()));
  for (const double size : shape)
    if (!(size >= 1 && size <= kLongest && std::trunc(size) == size))
      refuse(fmt::format("its input_shape holds {}, expected whole sizes", size));
  if (static_cast<double>(header.short_side) > kLongest)
    refuse(fmt::format("its short_side is {}, expected at most {}", header.short_side, kLongest));
  for (const auto& [name, numbers] : {std::pair("mean", &header.mean), std::pair("deviation", &header.deviation)})
    if (!numbers->empty() && !shape.empty() && static_cast<double>(numbers->size()) != shape[0])
      refuse(fmt::format("its {} has {} numbers for {} channels", name, numbers->size(), shape[0]));
  for (const double mean : header.mean)
    if (!(255 * std::abs(mean) <= kLargest)) refuse(fmt::format("its mean holds {}", mean));
  for (std::size_t c = 0; c < header.deviation.size(); ++c) {
    const double deviation = header.deviation[c], mean = c < header.mean.size() ? header.mean[c] : 0;
    if (!(255 * deviation >= 0.999 * kSmallest && 255 * deviation <= kLargest))
      refuse(fmt::format("its deviation holds {}", deviation));
    if (!(std::abs(mean) / deviation <= kLargest))
      refuse(fmt::format("its deviation holds {} for the mean {}", deviation, mean));
  }
}

}  // namespace

Checkpoint::Values values_of(const RunState& state) {
  Checkpoint::Values values = {{"step", state.step},
                               {"epoch", state.step / state.steps_per_epoch},
                               {"batch", state.step % state.steps_per_epoch},
                               {"steps_per_epoch", state.steps_per_epoch},
                               {"skipped", state.skipped},
                               {"evaluated", state.evaluated},
                               {"metrics_bytes", state.metrics_bytes},
                               {"roll_backs", std::ssize(state.returns)},
                               {"logged", state.logged},
                               {"loss_sum", state.loss_sum},
                               {"accuracy_sum", state.accuracy_sum},
                               {"best_score", state.best_score},
                               {"evaluations_since_best", state.evaluations_since_best}};
  if (!state.metrics_checksum.empty()) values["metrics_checksum"] = state.metrics_checksum;
  if (state.went_back_to >= 0) values["went_back_to"] = state.went_back_to;
  if (!state.returns.empty()) values["returns"] = fmt::format("{}", fmt::join(state.returns, " "));
  return values;
}

Checkpoint::Values values_of(const Splits& data) {
  Checkpoint::Values values = {{"train_samples", data.train->size()},
                               {"test_samples", data.test ? data.test->size() : std::int64_t{0}}};
  for (const auto& [name, half] : {std::pair("train_data", &data.train), std::pair("test_data", &data.test)})
    if (const std::uint64_t print = *half ? (*half)->fingerprint() : 0) values[name] = fmt::format("{:016x}", print);
  return values;
}

RunState run_state_of(const Checkpoint::Values& values) {
  const auto step = value_of<std::int64_t>(values, "step");
  auto returns = numbers_in(value_or<std::string>(values, "returns", {})).value_or(std::vector<std::int64_t>{});
  // An older checkpoint only counts them. It came from nothing that is further than itself.
  returns.resize(static_cast<std::size_t>(value_or<std::int64_t>(values, "roll_backs", 0)), step);
  return {.step = step,
          .logged = value_of<std::int64_t>(values, "logged"),
          .loss_sum = value_of<double>(values, "loss_sum"),
          .accuracy_sum = value_of<double>(values, "accuracy_sum"),
          .best_score = value_of<double>(values, values.contains("best_score") ? "best_score" : kOldScore),
          .evaluations_since_best = value_or<std::int64_t>(values, "evaluations_since_best", 0),
          .skipped = value_or<std::int64_t>(values, "skipped", 0),
          .evaluated = value_or(values, "evaluated", step),
          .steps_per_epoch = value_of<std::int64_t>(values, "steps_per_epoch"),
          .metrics_bytes = value_or<std::int64_t>(values, "metrics_bytes", -1),
          .metrics_checksum = value_or<std::string>(values, "metrics_checksum", {}),
          .returns = returns,
          .went_back_to = value_or<std::int64_t>(values, "went_back_to", -1)};
}

void check_run_header(const std::filesystem::path& file, const Checkpoint& header) {
  const Refuse refuse = [&](const std::string& what) {
    fail(Fault::checkpoint, file.string(), ": ", what, "; use another or an older checkpoint");
  };
  check_names(header.state, refuse);
  check_numbers(header.state, refuse);
  check_preparation(header, refuse);
  for (const auto& [object, values, known] :
       {std::tuple("/rng", &header.rng, "seed"), std::tuple("/optimizer", &header.optimizer_options, "options")})
    for (const auto& [name, value] : *values) {
      if (name != known) refuse(fmt::format("{} holds the unknown {}", object, field_text(name)));
      if (!std::holds_alternative<std::string>(value)) refuse(fmt::format("{} holds {} as no text", object, name));
    }
}

void check_run_state(const std::filesystem::path& file, const Checkpoint& header) {
  const auto check_holds = [&](const char* object, const Checkpoint::Values& values, const std::string& name) {
    if (!values.contains(name))
      fail(Fault::checkpoint, file.string(), ": ", object, " holds no ", name, ", as every run's does; ",
           "use another or an older checkpoint");
  };
  for (const char* name : {"step", "steps_per_epoch", "logged", "loss_sum", "accuracy_sum"})
    check_holds("/state", header.state, name);
  if (!header.state.contains(kOldScore)) check_holds("/state", header.state, "best_score");
  check_holds("/rng", header.rng, "seed");
}

void check_run_averages(const std::filesystem::path& file, const Checkpoint& checkpoint, std::optional<double> ema) {
  check_averages(checkpoint, file);
  const bool is_run = !checkpoint.optimizer_type.empty();
  if (ema && *ema == 0 && !checkpoint.ema.empty())
    fail(Fault::checkpoint, file.string(), ": /ema holds averages, but its configuration has no ema; ",
         "use another or an older checkpoint");
  if (ema && *ema > 0 && is_run && checkpoint.ema.empty())
    fail(Fault::checkpoint, file.string(), ": /ema is missing, but its configuration has ema ", *ema,
         "; use another or an older checkpoint");
}

NamedArrays first_weights(const std::filesystem::path& file, std::vector<std::string>* skipped) {
  const auto accept = [&](const Checkpoint& checkpoint) {
    if (!checkpoint.config.empty()) check_run_header(file, checkpoint);
    check_run_averages(file, checkpoint, std::nullopt);
  };
  return read_weights(file, accept, skipped);
}

}  // namespace nixie
