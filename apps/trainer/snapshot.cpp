// Fills a Checkpoint from a run and restores a run from it: variables by name, numbers under /state and /rng.
#include "nixie/apps/trainer/snapshot.h"

#include <fmt/format.h>

#include <set>

#include "nixie/apps/trainer/objective.h"
#include "nixie/apps/trainer/record/return_points.h"
#include "nixie/configs/parse/differences.h"
#include "nixie/core/base/one_line.h"
#include "nixie/models/io/checkpoint_state.h"

namespace nixie {
namespace {

constexpr const char* kWriter = "nixie " NIXIE_VERSION;

/// The data differ from the checkpoint's as the line says: refused, or reported where --set names them.
void tell_difference(const std::string& line, const SnapshotTarget& target) {
  if (!target.may_change("data"))
    fail(Fault::checkpoint, line, "; resume with the same, or name the data with --set, as in --set data.",
         target.config.data.kind(), ".batch=", target.config.data.batch());
  if (target.note) target.note(line);
}

/// Compares fingerprints.
void check_data(const Checkpoint::Values& state, const SnapshotTarget& target) {
  const Checkpoint::Values mine = values_of(target.data);
  for (const auto& [name, half] : {std::pair("train_data", "training"), std::pair("test_data", "test")})
    if (state.contains(name) && mine.contains(name) && state.at(name) != mine.at(name))
      tell_difference(fmt::format("the {} data are not those of the checkpoint's run (samples, their order, targets or "
                                  "classes differ)",
                                  half),
                      target);
}

/// Compares samples and classes with the checkpoint's header; an older one may lack the samples.
void check_names(const std::filesystem::path& file, const Checkpoint& header, const SnapshotTarget& target) {
  const Shape sample = target.data.train->sample_shape();
  if (!header.input_shape.empty() && !std::ranges::equal(header.input_shape, sample))
    tell_difference(fmt::format("{}: its samples are [{}], those of the data {}", file.string(),
                                fmt::join(header.input_shape, ", "), sample),
                    target);
  else if (header.class_names != target.data.train->class_names())
    tell_difference(file.string() + ": its class names are not those of the data", target);
}

template <class T>
void check_same(const char* what, const T& saved, const T& wanted) {
  if (saved != wanted)
    fail(Fault::checkpoint, "the checkpoint's run had ", what, " ", saved, ", this one has ", wanted,
         "; resume with the same, or start a new run");
}

/// A usage Error of `read` is one of the checkpoint that is read.
template <class Read>
auto of_the_file(const Read& read) try {
  return read();
} catch (const Error& error) {
  throw Error(error.fault() == Fault::usage ? Fault::checkpoint : error.fault(), error.what());
}

/// How this run's configuration differs from the checkpoint's, where keys that are new since have their defaults.
std::vector<std::string> changes_since(const std::filesystem::path& file, const Checkpoint& header,
                                       const SnapshotTarget& target) {
  if (header.config.empty()) return {};
  const Tree mine = parse_yaml(config_text(target.config), "the configuration");
  const auto config = config_of(file, header, target);
  return config_differences(config ? parse_yaml(config_text(*config), "the checkpoint's") : saved_tree(header, file),
                            mine);
}

/// Refuses a configuration that differs in what a run is of; tells about all other differences.
void check_changes(const std::filesystem::path& file, const Checkpoint& header, const SnapshotTarget& target) {
  const std::vector<Variable> buffers = target.optimizer.state().all();
  const bool is_stateless = std::all_of(buffers.begin(), buffers.end(), is_shared);
  std::string refused, keys;
  for (const std::string& change : changes_since(file, header, target)) {
    const std::string key = change.substr(0, change.find_first_of(".:"));
    check(key != "freeze" || is_stateless, file.string(), " is of a run with another freeze: ", change,
          "; its optimizer's state is of the parameters that it trained: resume with the run's own, or begin a new run "
          "with --set init_from=",
          file.string());
    if (!is_kept_key(key) || target.may_change(key)) {
      if (target.note) target.note("changed since the checkpoint: " + change);
      continue;
    }
    refused += (refused.empty() ? "" : "; ") + change;
    if (keys.find(key) == std::string::npos) keys += (keys.empty() ? "" : " and ") + key;
  }
  check(refused.empty(), file.string(), " is of a run with another ", keys, ": ", refused,
        "; resume with the run's own configuration, or name what is to change with --set");
}

/// Refuses a run that would end before the step it goes on from: none of its steps would be made.
void check_length(const std::filesystem::path& file, const Checkpoint& header, const SnapshotTarget& target) {
  const auto step = value_of<std::int64_t>(header.state, "step"),
             last = target.config.total_steps(target.steps_per_epoch);
  check(step <= last, file.string(), " is of step ", step, ", the run ends after ", last,
        "; resume with as many epochs or steps as that, or from an earlier checkpoint");
}

/// The optimizer's numbers that belong to no parameter must all be there, in their ranges, and no others.
void check_shared(const std::filesystem::path& file, const Checkpoint& header, const SnapshotTarget& target) {
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
  const std::string fault = shared_fault(header.state, target.optimizer, value_of<std::int64_t>(header.state, "step"));
  if (!fault.empty())
    fail(Fault::checkpoint, file.string(), ": /state holds ", fault, "; use another or an older checkpoint");
}

/// Whether what is best is measured by the loss.
bool is_best_by_loss(const SnapshotTarget& target) {
  const TrainConfig& config = target.config;
  return config.best_by == "loss" ||
         (config.best_by == "accuracy" && !Objective(config, target.data.train->target()).accuracy());
}

/// Whether scores of the checkpoint's run cannot be compared with this one's.
bool scores_differ(const std::filesystem::path& file, const Checkpoint& checkpoint, const SnapshotTarget& target) {
  const bool is_of_loss = is_best_by_loss(target);
  const auto changes = changes_since(file, checkpoint, target);
  return std::any_of(changes.begin(), changes.end(), [&](const std::string& change) {
    const std::string key = change.substr(0, change.find_first_of(".:"));
    return key == "best_by" || (is_of_loss && key == "loss");
  });
}

/// Accuracies and most metrics are shares of something; losses and errors have no bounds.
void check_best(const std::filesystem::path& file, const Checkpoint& header, const SnapshotTarget& target) {
  const TrainConfig& config = target.config;
  const double score = run_state_of(header.state).best_score;
  if (is_best_by_loss(target) || score == RunState{}.best_score || scores_differ(file, header, target)) return;
  const std::vector<std::string> names = metric_names(config.metrics);
  const auto metric = std::find(names.begin(), names.end(), config.best_by);
  if (metric != names.end() && config.metrics[static_cast<std::size_t>(metric - names.begin())].is_error()) return;
  if (!(score >= 0 && score <= 1.00001))
    fail(Fault::checkpoint, file.string(), ": /state holds best_score ", score, ", expected 0 to 1 of ", config.best_by,
         "; use another or an older checkpoint");
}

void check_header(const std::filesystem::path& file, const Checkpoint& header, const SnapshotTarget& target) {
  if (header.optimizer_type.empty())
    fail(Fault::checkpoint, file.string(), ": has no optimizer, as what `export` writes; begin a new run with ",
         "--set init_from=", file.string());
  check_run_state(file, header);
  check_run_header(file, header);
  if (target.note && header.writer != kWriter)
    target.note(one_line("the checkpoint was written by " + header.writer + ", this is " + kWriter +
                         ": further steps may differ in their last bits"));
  check_changes(file, header, target);
  check_same("optimizer", header.optimizer_type, target.optimizer.options().rule.kind());
  check_same("seed", value_of<std::string>(header.rng, "seed"), std::to_string(target.config.seed));
  const std::int64_t train = target.data.train->size(), test = target.data.test ? target.data.test->size() : 0;
  check_same("training samples", value_or(header.state, "train_samples", train), train);
  check_same("test samples", value_or(header.state, "test_samples", test), test);
  check_same("steps per epoch", value_of<std::int64_t>(header.state, "steps_per_epoch"), target.steps_per_epoch);
  check_length(file, header, target);
  check_data(header.state, target);
  check_names(file, header, target);
  check_shared(file, header, target);
  check_best(file, header, target);
}

/// The configuration in a checkpoint; nothing where there is none, or it cannot be read.
std::optional<TrainConfig> config_in(const FilePlace& file) try {
  if (!std::filesystem::is_regular_file(file.status())) return {};
  const Checkpoint header = load_checkpoint(file, {.header_only = true});
  return header.config.empty() ? std::nullopt : std::optional(saved_config(header, file.path()));
} catch (const Error& error) {  // a resume tells that it is damaged
  if (error.fault() != Fault::checkpoint) throw;
  return {};
}

}  // namespace

Checkpoint take_snapshot(const TrainConfig& config, const Model& model, const Optimizer& optimizer,
                         const RunState& state, const Splits& data, const Checkpoint::Values& values) {
  Checkpoint checkpoint;
  checkpoint.state = values_of(state);
  checkpoint.state.merge(Checkpoint::Values(values));
  add(model, checkpoint);
  add(optimizer, checkpoint);
  checkpoint.rng["seed"] = std::to_string(config.seed);  // text: a u64 has no other place
  describe(config, data.train->preparation(), data.train->class_names(), checkpoint);
  return checkpoint;
}

void describe(const TrainConfig& config, const Preparation& preparation, const std::vector<std::string>& class_names,
              Checkpoint& checkpoint) {
  const Shape sample = preparation.sample_shape();
  checkpoint.config = config_text(config);
  checkpoint.class_names = class_names;
  checkpoint.input_shape = {sample.begin(), sample.end()};
  checkpoint.short_side = preparation.short_side;
  checkpoint.upright = preparation.upright;
  checkpoint.mean = preparation.mean;
  checkpoint.deviation = preparation.deviation;
  checkpoint.writer = kWriter;
}

void check_texts(const TrainConfig& config, const Dataset& data) {
  Checkpoint texts;
  texts.config = config_text(config);
  texts.class_names = data.class_names();
  check_storable(texts);
}

Tree saved_tree(const Checkpoint& checkpoint, const std::filesystem::path& file) {
  return of_the_file([&] {
    Tree tree = parse_yaml(checkpoint.config, file.string() + ": configuration");
    // A run that is older than this key read pictures as they are stored.
    const Tree* data = tree.is_map() ? tree.find("data") : nullptr;
    const Tree* folder = data && data->is_map() ? data->find(ImageFolder::name) : nullptr;
    if (folder && folder->is_map() && !folder->find("upright")) override_yaml(tree, "data.image_folder.upright=false");
    return tree;
  });
}

TrainConfig saved_config(const Checkpoint& checkpoint, const std::filesystem::path& file) {
  return of_the_file([&] { return read_config(saved_tree(checkpoint, file)); });
}

TrainConfig as_saved(const FilePlace& file, const std::vector<FilePlace>& checkpoints,
                     const std::vector<std::string>& assignments, const std::function<void(const std::string&)>& note) {
  TrainConfig config = load_config(file);
  for (const FilePlace& checkpoint : checkpoints) {
    const auto saved = config_in(checkpoint);
    if (!saved) continue;
    const std::string before = config_text(config);
    config.model = saved->model;
    config.data = saved->data;
    config.optimizer = saved->optimizer;
    const auto changes = config_differences(before, config_text(config));
    if (changes.empty()) break;
    note(fmt::format("{} differs from the configuration in {}, which is used ({}); change it with --set",
                     file.path().string(), checkpoint.path().string(), fmt::join(changes, "; ")));
    return with_assignments(config, file.path().string(), assignments);
  }
  return load_config(file, assignments);
}

std::optional<TrainConfig> config_of(const std::filesystem::path& file, const Checkpoint& header,
                                     const SnapshotTarget& target) {
  if (header.config.empty()) return std::nullopt;
  try {
    parse_config(config_text(target.config), "the configuration");
  } catch (const Error&) {
    return std::nullopt;
  }
  return saved_config(header, file);
}

Checkpoint load_snapshot(const FilePlace& place, const SnapshotTarget& target) {
  const std::filesystem::path& file = place.path();
  Checkpoint checkpoint =
      load_checkpoint(place, {.model = forms_of(target.model),
                              .optimizer = forms_of(target.optimizer),
                              .accept = [&](const Checkpoint& header) { check_header(file, header, target); }});
  const auto config = config_of(file, checkpoint, target);
  check_run_averages(file, checkpoint, config ? std::optional(config->ema) : std::nullopt);
  check_ranges(checkpoint, file.string(), target.model, &target.optimizer);
  return checkpoint;
}

RunState state_in(const Checkpoint& checkpoint, const SnapshotTarget& target) {
  RunState state = run_state_of(checkpoint.state);
  if (!scores_differ("the checkpoint", checkpoint, target)) return state;
  state.best_score = RunState{}.best_score;
  state.evaluations_since_best = 0;
  if (target.note) target.note("what is best is measured in another way: the next evaluation is the best until now");
  return state;
}

RunState restore_snapshot(const Checkpoint& checkpoint, const SnapshotTarget& target) {
  const RunState state = state_in(checkpoint, target);
  restore(checkpoint, "the checkpoint", target.model, &target.optimizer);
  return state;
}

std::optional<LoadedFile> load_first(const std::vector<FilePlace>& files, const SnapshotTarget& target) {
  std::set<std::string> notes;
  SnapshotTarget once = target;  // what holds of all files is said of the first
  once.note = [&](const std::string& note) {
    if (target.note && notes.insert(note).second) target.note(note);
  };
  std::string last;
  for (const FilePlace& file : files) {
    if (!std::filesystem::exists(file.status())) continue;
    try {
      LoadedFile loaded{file, load_snapshot(file, once)};
      if (!last.empty()) once.note(last);
      return loaded;
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
