// Fills a Checkpoint from a run and restores a run from it: variables by name, numbers under /state and /rng.
#include "nixie/apps/trainer/snapshot.h"

#include <algorithm>

#include "nixie/configs/parse/changes.h"
#include "nixie/models/io/checkpoint_state.h"

namespace nixie {
namespace {

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

/// Older checkpoints hold the best accuracy, which was the only score.
double best_score(const Checkpoint::Values& state) {
  return value_of<double>(state, state.contains("best_score") ? "best_score" : "best_accuracy");
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
  check_changes(file, header, target);
  check_same("optimizer", header.optimizer_type, target.optimizer.options().rule.kind());
  check_same("seed", value_of<std::string>(header.rng, "seed"), std::to_string(target.config.seed));
  check_same("steps per epoch", value_of<std::int64_t>(header.state, "steps_per_epoch"), target.steps_per_epoch);
  const std::int64_t train = target.data.train->size(), test = target.data.test->size();
  check_same("training samples", value_or(header.state, "train_samples", train), train);
  check_same("test samples", value_or(header.state, "test_samples", test), test);
  check_shared(header, target);
}

}  // namespace

Checkpoint take_snapshot(const TrainConfig& config, const Model& model, const Optimizer& optimizer,
                         const RunState& state, const Splits& data) {
  Checkpoint checkpoint;
  checkpoint.state = {{"step", state.step},
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
  checkpoint.writer = "nixie " NIXIE_VERSION;
  return checkpoint;
}

Checkpoint load_snapshot(const std::filesystem::path& file, const SnapshotTarget& target) {
  return load_checkpoint(file, {.model = forms_of(target.model),
                                .optimizer = forms_of(target.optimizer),
                                .accept = [&](const Checkpoint& header) { check_header(file, header, target); }});
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
  restore(checkpoint, "the checkpoint", target.model, &target.optimizer);
  return state;
}

std::optional<Checkpoint> load_first(const std::vector<std::filesystem::path>& files, const SnapshotTarget& target) {
  std::string last;
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::exists(file)) continue;
    try {
      return load_snapshot(file, target);
    } catch (const Error& error) {
      if (error.fault() != Fault::checkpoint) throw;
      last = error.what();
      if (target.note) target.note(last);
    }
  }
  if (last.empty()) return std::nullopt;
  fail(Fault::checkpoint, "no checkpoint of the run is usable: ", last);
}

}  // namespace nixie
