// Variables by name, and the run's numbers under /state and /rng.
#include "nixie/apps/trainer/snapshot.h"

namespace nixie {
namespace {

/// What all parameters share (`shared.step`) is a number of the run; the rest are buffers of a parameter.
bool is_shared(const Variable& variable) { return variable.name().starts_with("shared."); }

/// `features.0.weight.momentum_buffer` apart at its last dot.
std::pair<std::string, std::string> split_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

template <class T>
T value_of(const Checkpoint::Values& values, const std::string& name) {
  const auto found = values.find(name);
  const T* value = found == values.end() ? nullptr : std::get_if<T>(&found->second);
  if (!value) fail(Fault::checkpoint, "the checkpoint has no ", name, "; it was not written by a training run");
  return *value;
}

/// The value of an optimizer's Variable; throws where there is none of its shape.
Tensor saved_value(const Checkpoint& checkpoint, const Variable& variable) {
  const auto [parameter, buffer] = split_name(variable.name());
  const auto buffers = checkpoint.optimizer.find(parameter);
  const bool is_there = is_shared(variable)
                            ? checkpoint.state.contains(variable.name())
                            : buffers != checkpoint.optimizer.end() && buffers->second.contains(buffer) &&
                                  buffers->second.at(buffer).shape() == variable.shape();
  if (!is_there)
    fail(Fault::checkpoint, "the checkpoint has no optimizer state ", variable.name(), " of shape ", variable.shape(),
         "; resume with the configuration it was made with");
  if (!is_shared(variable)) return buffers->second.at(buffer);
  // an array: a bare number would be rounded to f32
  return Array::from(std::vector<double>{value_of<double>(checkpoint.state, variable.name())}, {});
}

template <class T>
void check_same(const char* what, const T& saved, const T& wanted) {
  if (saved != wanted)
    fail(Fault::checkpoint, "the checkpoint's run had ", what, " ", saved, ", this one has ", wanted,
         "; resume with the same, or start a new run");
}

}  // namespace

Checkpoint take_snapshot(const TrainConfig& config, const Model& model, const Optimizer& optimizer,
                         const RunState& state, const Dataset& dataset) {
  Checkpoint checkpoint;
  for (const Variable& variable : model.parameters().all()) checkpoint.model[variable.name()] = variable.array();
  checkpoint.optimizer_type = optimizer.options().rule.kind();
  checkpoint.optimizer_options["options"] = optimizer.options().rule.text();
  checkpoint.state = {{"step", state.step},
                      {"epoch", state.step / state.steps_per_epoch},
                      {"batch", state.step % state.steps_per_epoch},
                      {"steps_per_epoch", state.steps_per_epoch},
                      {"logged", state.logged},
                      {"loss_sum", state.loss_sum},
                      {"accuracy_sum", state.accuracy_sum},
                      {"best_accuracy", state.best_accuracy}};
  for (const Variable& variable : optimizer.state().all()) {
    const auto [parameter, buffer] = split_name(variable.name());
    if (is_shared(variable))
      checkpoint.state[variable.name()] = variable.array().item();
    else
      checkpoint.optimizer[parameter][buffer] = variable.array();
  }
  checkpoint.rng["seed"] = std::to_string(config.seed);  // text: a u64 has no other place
  checkpoint.config = config_text(config);
  checkpoint.class_names = dataset.class_names();
  checkpoint.writer = "nixie 0.1.0";
  return checkpoint;
}

Checkpoint load_snapshot(const std::filesystem::path& file, const Model& model) {
  std::map<std::string, Shape> shapes;
  for (const Variable& variable : model.parameters().all()) shapes[variable.name()] = variable.shape();
  return load_checkpoint(file, {.model = std::move(shapes)});
}

RunState restore_snapshot(const Checkpoint& checkpoint, const TrainConfig& config, const Model& model,
                          const Optimizer& optimizer, std::int64_t steps_per_epoch) {
  check_same("optimizer", checkpoint.optimizer_type, optimizer.options().rule.kind());
  check_same("seed", value_of<std::string>(checkpoint.rng, "seed"), std::to_string(config.seed));
  check_same("steps per epoch", value_of<std::int64_t>(checkpoint.state, "steps_per_epoch"), steps_per_epoch);
  const RunState state{.step = value_of<std::int64_t>(checkpoint.state, "step"),
                       .logged = value_of<std::int64_t>(checkpoint.state, "logged"),
                       .loss_sum = value_of<double>(checkpoint.state, "loss_sum"),
                       .accuracy_sum = value_of<double>(checkpoint.state, "accuracy_sum"),
                       .best_accuracy = value_of<double>(checkpoint.state, "best_accuracy"),
                       .steps_per_epoch = steps_per_epoch};
  std::vector<Tensor> values;
  for (const Variable& variable : optimizer.state().all()) values.push_back(saved_value(checkpoint, variable));
  for (std::size_t i = 0; i < values.size(); ++i) optimizer.state().all()[i].set(values[i]);
  for (const Variable& variable : model.parameters().all()) variable.set(checkpoint.model.at(variable.name()));
  return state;
}

std::optional<Checkpoint> load_first(const std::vector<std::filesystem::path>& files, const Model& model,
                                     const std::function<void(const std::string&)>& note) {
  std::string last;
  for (const std::filesystem::path& file : files) {
    if (!std::filesystem::exists(file)) continue;
    try {
      return load_snapshot(file, model);
    } catch (const Error& error) {
      if (error.fault() != Fault::checkpoint) throw;
      last = error.what();
      note(last);
    }
  }
  if (last.empty()) return std::nullopt;
  fail(Fault::checkpoint, "no checkpoint of the run is usable: ", last);
}

}  // namespace nixie
