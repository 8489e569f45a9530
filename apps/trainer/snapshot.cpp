// Fills a Checkpoint from a run and restores a run from it: variables by name, numbers under /state and /rng.
#include "nixie/apps/trainer/snapshot.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "nixie/apps/trainer/objective.h"
#include "nixie/configs/parse/changes.h"
#include "nixie/core/base/one_line.h"
#include "nixie/models/io/checkpoint_state.h"

namespace nixie {
namespace {

constexpr const char* kWriter = "nixie " NIXIE_VERSION;
constexpr const char* kOldScore = "best_accuracy";  // of older checkpoints, which knew no other score
constexpr const char *kTrainData = "train_data", *kTestData = "test_data";  // fingerprints, where datasets tell them

template <class T>
T value_of(const Checkpoint::Values& values, const std::string& name) {
  const auto found = values.find(name);
  const T* value = found == values.end() ? nullptr : std::get_if<T>(&found->second);
  if (!value) fail(Fault::checkpoint, "the checkpoint has no ", name, "; it was not written by a training run");
  return *value;
}

template <class T>
T value_or(const Checkpoint::Values& values, const std::string& name, T otherwise) {
  return values.contains(name) ? value_of<T>(values, name) : otherwise;
}

double best_score(const Checkpoint::Values& state) {
  return value_of<double>(state, state.contains("best_score") ? "best_score" : kOldScore);
}

/// What a run's /state holds, but for the optimizer's own numbers. What is not known of the data is left out.
Checkpoint::Values state_values(const RunState& state, const Splits& data) {
  Checkpoint::Values values = {{"step", state.step},
                               {"epoch", state.step / state.steps_per_epoch},
                               {"batch", state.step % state.steps_per_epoch},
                               {"steps_per_epoch", state.steps_per_epoch},
                               {"train_samples", data.train->size()},
                               {"test_samples", data.test->size()},
                               {"skipped", state.skipped},
                               {"evaluated", state.evaluated},
                               {"metrics_bytes", state.metrics_bytes},
                               {"roll_backs", state.roll_backs},
                               {"logged", state.logged},
                               {"loss_sum", state.loss_sum},
                               {"accuracy_sum", state.accuracy_sum},
                               {"best_score", state.best_score},
                               {"evaluations_since_best", state.evaluations_since_best}};
  for (const auto& [name, half] : {std::pair(kTrainData, &data.train), std::pair(kTestData, &data.test)})
    if (const std::uint64_t print = (*half)->fingerprint()) values[name] = fmt::format("{:016x}", print);
  return values;
}

/// Refuses numbers that no run has, which would stop this one late or change it without a word.
void check_state(const std::filesystem::path& file, const Checkpoint::Values& state, const SnapshotTarget& target) {
  const auto refuse = [&](const std::string& what) {
    fail(Fault::checkpoint, file.string(), ": /state ", what, "; use another or an older checkpoint");
  };
  Checkpoint::Values known = state_values({.steps_per_epoch = target.steps_per_epoch}, target.data);
  for (const char* name : {kOldScore, kTrainData, kTestData}) known.try_emplace(name);
  for (const auto& [name, value] : state)
    if (!known.contains(name) && !name.starts_with("shared.")) refuse("holds the unknown " + field_text(name));
  const auto steps = value_of<std::int64_t>(state, "step");
  constexpr std::int64_t kMost = 1'000'000'000'000'000;
  const struct {
    const char* name;
    std::int64_t least, most;
  } kNumbers[] = {{"step", 0, kMost},
                  {"steps_per_epoch", 1, kMost},
                  {"logged", 0, steps},
                  {"evaluated", 0, steps},
                  {"skipped", 0, steps},
                  {"evaluations_since_best", 0, steps},
                  {"roll_backs", 0, kMostRollBacks},
                  {"metrics_bytes", -1, kMost}};
  for (const auto& [name, least, most] : kNumbers)
    if (const std::int64_t value = value_or(state, name, least); value < least || value > most)
      refuse(fmt::format("holds {} {}, expected {} to {}", name, value, least, most));
  for (const char* name : {"loss_sum", "accuracy_sum"})
    if (const double value = value_or(state, name, 0.0); !std::isfinite(value))
      refuse(fmt::format("holds {} {}, expected a finite number", name, value));
  if (const double score = best_score(state); !std::isfinite(score))
    refuse(fmt::format("holds best_score {}, expected a finite number", score));
  const auto of_epoch = value_or<std::int64_t>(state, "steps_per_epoch", 1);
  for (const auto& [name, expected] : {std::pair("epoch", steps / of_epoch), std::pair("batch", steps % of_epoch)})
    if (const std::int64_t value = value_or(state, name, expected); value != expected)
      refuse(fmt::format("holds {} {}, expected {} at step {} of {} an epoch", name, value, expected, steps, of_epoch));
  const double updates = value_or(state, "shared.step", 0.0);
  if (!(updates >= 0 && updates <= static_cast<double>(steps)) || std::trunc(updates) != updates)
    refuse(fmt::format("holds shared.step {}, expected a whole number, 0 to {}", updates, steps));
}

/// Tells by the fingerprints whether the data are still those of the checkpoint.
void check_data(const Checkpoint::Values& state, const SnapshotTarget& target) {
  const Checkpoint::Values mine = state_values({.steps_per_epoch = target.steps_per_epoch}, target.data);
  for (const auto& [name, half] : {std::pair(kTrainData, "training"), std::pair(kTestData, "test")}) {
    if (!state.contains(name) || !mine.contains(name) || state.at(name) == mine.at(name)) continue;
    const std::string line = fmt::format("the {} data are not those of the checkpoint's run", half);
    if (std::find(target.changes.begin(), target.changes.end(), "data") == target.changes.end())
      fail(Fault::checkpoint, line,
           " (samples, their order, targets or classes differ); resume with the same, or name ",
           "the data with --set, as in --set data.", target.config.data.kind(), ".batch=", target.config.data.batch());
    if (target.note) target.note(line);
  }
}

template <class T>
void check_same(const char* what, const T& saved, const T& wanted) {
  if (saved != wanted)
    fail(Fault::checkpoint, "the checkpoint's run had ", what, " ", saved, ", this one has ", wanted,
         "; resume with the same, or start a new run");
}

/// A configuration as this program would write it: keys that are new since have their defaults.
std::string with_defaults(const std::string& config) try {
  return config_text(parse_config(config, "the checkpoint's configuration"));
} catch (const Error&) {
  return config;  // it names what this program does not know, which is then told as a difference
}

/// Refuses a configuration that differs in what a run is of; tells about all other differences.
void check_changes(const std::filesystem::path& file, const Checkpoint& header, const SnapshotTarget& target) {
  if (header.config.empty()) return;
  std::string refused, keys;
  for (const std::string& change : config_changes(with_defaults(header.config), config_text(target.config))) {
    const std::string key = change.substr(0, change.find_first_of(".:"));
    const bool is_kept = key == "model" || key == "data" || key == "optimizer";
    const bool is_wanted = std::find(target.changes.begin(), target.changes.end(), key) != target.changes.end();
    if (!is_kept || is_wanted) {
      if (target.note) target.note("changed since the checkpoint: " + change);
      continue;
    }
    refused += (refused.empty() ? "" : "; ") + change;
    if (keys.find(key) == std::string::npos) keys += (keys.empty() ? "" : " and ") + key;
  }
  check(refused.empty(), file.string(), " is of a run with another ", keys, ": ", refused,
        "; resume with the run's own configuration, or name what is to change with --set");
}

/// The optimizer's numbers that belong to no parameter must all be there, and no others.
void check_shared(const Checkpoint& header, const SnapshotTarget& target) {
  std::vector<std::string> known;
  for (const Variable& variable : target.optimizer.state().all())
    if (is_shared(variable)) known.push_back(variable.name());
  for (const std::string& name : known)
    if (!header.state.contains(name))
      fail(Fault::checkpoint, "the checkpoint has no optimizer state ", name,
           "; resume with the configuration it was made with");
  for (const auto& [name, value] : header.state)
    if (name.starts_with("shared.") && std::find(known.begin(), known.end(), name) == known.end())
      fail(Fault::checkpoint, "the checkpoint has the optimizer state ", name,
           ", which this run does not know; resume with the configuration it was made with");
}

void check_header(const std::filesystem::path& file, const Checkpoint& header, const SnapshotTarget& target) {
  check_state(file, header.state, target);
  for (const auto& [object, values, known] :
       {std::tuple("/rng", &header.rng, "seed"), std::tuple("/optimizer", &header.optimizer_options, "options")})
    for (const auto& [name, value] : *values)
      if (name != known)
        fail(Fault::checkpoint, file.string(), ": ", object, " holds the unknown ", field_text(name),
             "; use another or an older checkpoint");
  if (target.note && header.writer != kWriter)
    target.note(one_line("the checkpoint was written by " + header.writer + ", this is " + kWriter +
                         ": further steps may differ in their last bits"));
  check_changes(file, header, target);
  check_same("optimizer", header.optimizer_type, target.optimizer.options().rule.kind());
  check_same("seed", value_of<std::string>(header.rng, "seed"), std::to_string(target.config.seed));
  check_same("steps per epoch", value_of<std::int64_t>(header.state, "steps_per_epoch"), target.steps_per_epoch);
  const std::int64_t train = target.data.train->size(), test = target.data.test->size();
  check_same("training samples", value_or(header.state, "train_samples", train), train);
  check_same("test samples", value_or(header.state, "test_samples", test), test);
  check_data(header.state, target);
  check_shared(header, target);
}

}  // namespace

Checkpoint take_snapshot(const TrainConfig& config, const Model& model, const Optimizer& optimizer,
                         const RunState& state, const Splits& data) {
  Checkpoint checkpoint;
  checkpoint.state = state_values(state, data);
  add(model, checkpoint);
  add(optimizer, checkpoint);
  checkpoint.rng["seed"] = std::to_string(config.seed);  // text: a u64 has no other place
  checkpoint.config = config_text(config);
  checkpoint.class_names = data.train->class_names();
  const Preparation preparation = data.train->preparation();
  const Shape sample = preparation.sample_shape();
  checkpoint.input_shape = {sample.begin(), sample.end()};
  checkpoint.short_side = preparation.short_side;
  checkpoint.mean = preparation.mean;
  checkpoint.deviation = preparation.deviation;
  checkpoint.writer = kWriter;
  return checkpoint;
}

Checkpoint load_snapshot(const std::filesystem::path& file, const SnapshotTarget& target) {
  return load_checkpoint(file, {.model = forms_of(target.model),
                                .optimizer = forms_of(target.optimizer),
                                .accept = [&](const Checkpoint& header) { check_header(file, header, target); }});
}

// Whether scores of the checkpoint's run cannot be compared with this one's.
bool scores_differ(const Checkpoint& checkpoint, const SnapshotTarget& target) {
  const TrainConfig& config = target.config;
  const bool is_of_loss = config.best_by == "loss" ||
                          (config.best_by == "accuracy" && !Objective(config, target.data.train->target()).accuracy());
  const auto changes = config_changes(with_defaults(checkpoint.config), config_text(config));
  return std::any_of(changes.begin(), changes.end(), [&](const std::string& change) {
    const std::string key = change.substr(0, change.find_first_of(".:"));
    return key == "best_by" || (is_of_loss && key == "loss");
  });
}

RunState restore_snapshot(const Checkpoint& checkpoint, const SnapshotTarget& target) {
  const Checkpoint::Values& saved = checkpoint.state;
  RunState state{.step = value_of<std::int64_t>(saved, "step"),
                 .logged = value_of<std::int64_t>(saved, "logged"),
                 .loss_sum = value_of<double>(saved, "loss_sum"),
                 .accuracy_sum = value_of<double>(saved, "accuracy_sum"),
                 .best_score = best_score(saved),
                 .steps_per_epoch = target.steps_per_epoch};
  state.skipped = value_or<std::int64_t>(saved, "skipped", 0);
  state.evaluations_since_best = value_or<std::int64_t>(saved, "evaluations_since_best", 0);
  state.evaluated = value_or(saved, "evaluated", state.step);
  state.metrics_bytes = value_or<std::int64_t>(saved, "metrics_bytes", -1);
  state.roll_backs = value_or<std::int64_t>(saved, "roll_backs", 0);
  if (!checkpoint.config.empty() && scores_differ(checkpoint, target)) {
    state.best_score = RunState{}.best_score;
    state.evaluations_since_best = 0;
    if (target.note) target.note("what is best is measured in another way: the next evaluation is the best until now");
  }
  restore(checkpoint, "the checkpoint", target.model, &target.optimizer);
  return state;
}

std::optional<Checkpoint> load_first(const std::vector<std::filesystem::path>& files, const SnapshotTarget& target) {
  std::set<std::string> told;
  SnapshotTarget once = target;  // what holds of all files is said of the first
  once.note = [&](const std::string& note) {
    if (target.note && told.insert(note).second) target.note(note);
  };
  std::string last;
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::exists(file)) continue;
    try {
      Checkpoint checkpoint = load_snapshot(file, once);
      if (!last.empty()) once.note(last);
      return checkpoint;
    } catch (const Error& error) {
      if (error.fault() != Fault::checkpoint) throw;
      if (!last.empty() && last != error.what()) once.note(last);
      last = error.what();
    }
  }
  if (last.empty()) return std::nullopt;
  fail(Fault::checkpoint, "no checkpoint of the run is usable: ", last);
}

}  // namespace nixie
