// Ranges in one table; numbers that depend on each other beside it.
#include "nixie/apps/trainer/record/run_state.h"

#include <limits>

#include "nixie/core/base/fields.h"

namespace nixie {
namespace {

constexpr const char* kOldScore = "best_accuracy";  // of older checkpoints, which knew no other score
constexpr std::int64_t kMost = 1'000'000'000'000'000;
constexpr double kLargest = std::numeric_limits<float>::max();

using Refuse = std::function<void(const std::string& what)>;

/// A value of the kind that each name has, which may stand in /state.
Checkpoint::Values known_values() {
  Checkpoint::Values known = values_of(RunState{.steps_per_epoch = 1});
  known.insert({{kOldScore, 0.0},
                {"train_samples", std::int64_t{0}},
                {"test_samples", std::int64_t{0}},
                {"train_data", std::string{}},
                {"test_data", std::string{}}});
  return known;
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
  number("roll_backs", 0, kMostRollBacks);
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
  for (const char* name : {"best_score", kOldScore})
    if (const double score = value_or(state, name, 0.0); !std::isfinite(score))
      refuse(fmt::format("/state holds {} {}, expected a finite number", name, score));
}

}  // namespace

Checkpoint::Values values_of(const RunState& state) {
  return {{"step", state.step},
          {"epoch", state.step / state.steps_per_epoch},
          {"batch", state.step % state.steps_per_epoch},
          {"steps_per_epoch", state.steps_per_epoch},
          {"skipped", state.skipped},
          {"evaluated", state.evaluated},
          {"metrics_bytes", state.metrics_bytes},
          {"roll_backs", state.roll_backs},
          {"logged", state.logged},
          {"loss_sum", state.loss_sum},
          {"accuracy_sum", state.accuracy_sum},
          {"best_score", state.best_score},
          {"evaluations_since_best", state.evaluations_since_best}};
}

Checkpoint::Values values_of(const Splits& data) {
  Checkpoint::Values values = {{"train_samples", data.train->size()}, {"test_samples", data.test->size()}};
  for (const auto& [name, half] : {std::pair("train_data", &data.train), std::pair("test_data", &data.test)})
    if (const std::uint64_t print = (*half)->fingerprint()) values[name] = fmt::format("{:016x}", print);
  return values;
}

RunState run_state_of(const Checkpoint::Values& values) {
  const auto step = value_of<std::int64_t>(values, "step");
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
          .roll_backs = value_or<std::int64_t>(values, "roll_backs", 0)};
}

void check_run_header(const std::filesystem::path& file, const Checkpoint& header) {
  const Refuse refuse = [&](const std::string& what) {
    fail(Fault::checkpoint, file.string(), ": ", what, "; use another or an older checkpoint");
  };
  check_names(header.state, refuse);
  check_numbers(header.state, refuse);
  for (const auto& [object, values, known] :
       {std::tuple("/rng", &header.rng, "seed"), std::tuple("/optimizer", &header.optimizer_options, "options")})
    for (const auto& [name, value] : *values) {
      if (name != known) refuse(fmt::format("{} holds the unknown {}", object, field_text(name)));
      if (!std::holds_alternative<std::string>(value)) refuse(fmt::format("{} holds {} as no text", object, name));
    }
}

}  // namespace nixie
