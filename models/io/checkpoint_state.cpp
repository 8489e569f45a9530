// Collects Variables by name, and sets them from what was collected.
#include "nixie/models/io/checkpoint_state.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "nixie/models/io/array_values.h"

namespace nixie {
namespace {

// `features.0.weight.momentum_buffer` apart at its last dot.
std::pair<std::string, std::string> split_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot + 1)};
}

using Values = std::vector<std::pair<Variable, Array>>;

// The array of a Variable's name, if it has its shape and type.
Array taken(const Checkpoint::Arrays& arrays, const std::string& name, const Variable& variable,
            const std::string& file) {
  const auto found = arrays.find(name);
  if (found == arrays.end())
    fail(Fault::checkpoint, file, " has no ", variable.name(), "; load it into what was saved");
  const Array& array = found->second;
  if (array.shape() != variable.shape() || array.dtype() != variable.dtype())
    fail(Fault::checkpoint, file, " has ", variable.name(), " as ", array.dtype(), " ", array.shape(), ", expected ",
         variable.dtype(), " ", variable.shape());
  return array;
}

void take_model(const Model& model, const Checkpoint& checkpoint, const std::string& file, Values& values) {
  for (const Variable& variable : model.parameters().all())
    values.emplace_back(variable, taken(checkpoint.model, variable.name(), variable, file));
  for (const auto& [name, array] : checkpoint.model)
    if (!model.parameters().find(name))
      fail(Fault::checkpoint, file, " has ", name,
           ", which the model does not have; load it into the model that was saved");
}

void take_optimizer(const Optimizer& optimizer, const Checkpoint& checkpoint, const std::string& file, Values& values) {
  const std::string& kind = optimizer.options().rule.kind();
  if (checkpoint.optimizer_type != kind)
    fail(Fault::checkpoint, file, " is of ", checkpoint.optimizer_type.empty() ? "no" : checkpoint.optimizer_type,
         " optimizer, expected ", kind);
  if (const std::string fault = shared_fault(checkpoint.state, optimizer); !fault.empty())
    fail(Fault::checkpoint, file, ": /state holds ", fault, "; use another or an older checkpoint");
  for (const Variable& variable : optimizer.state().all()) {
    const auto [parameter, buffer] = split_name(variable.name());
    if (!is_shared(variable)) {
      const auto buffers = checkpoint.optimizer.find(parameter);
      const bool is_there = buffers != checkpoint.optimizer.end();
      values.emplace_back(variable, taken(is_there ? buffers->second : Checkpoint::Arrays{}, buffer, variable, file));
      continue;
    }
    const auto found = checkpoint.state.find(variable.name());
    const double* number = found == checkpoint.state.end() ? nullptr : std::get_if<double>(&found->second);
    if (!number) fail(Fault::checkpoint, file, " has no ", variable.name(), "; load it into what was saved");
    values.emplace_back(variable, Array::from(std::vector<double>{*number}, {}).to(variable.dtype()));
  }
}

/// `/model/1.running_var holds -3, expected 0 to inf`: the first array with an element outside its range; "" if there
/// is none.
std::string array_fault(const Checkpoint& checkpoint, const Model& model, const Optimizer* optimizer) {
  const auto fault_of = [&](const Checkpoint::Arrays& arrays, const std::string& group, const std::string& name,
                            const Variable& variable) {
    const auto found = arrays.find(name);
    const std::string fault = found == arrays.end() ? "" : range_fault(variable, found->second);
    return fault.empty() ? fault : group + "/" + name + " " + fault;
  };
  std::string fault;
  for (const Variable& variable : model.parameters().all()) {
    if (fault.empty()) fault = fault_of(checkpoint.model, "/model", variable.name(), variable);
    if (fault.empty()) fault = fault_of(checkpoint.ema, "/ema", variable.name(), variable);
  }
  if (!optimizer) return fault;
  for (const Variable& variable : optimizer->state().all()) {
    const auto [parameter, buffer] = split_name(variable.name());
    const auto buffers = checkpoint.optimizer.find(parameter);
    if (fault.empty() && buffers != checkpoint.optimizer.end())
      fault = fault_of(buffers->second, "/optimizer/" + parameter, buffer, variable);
  }
  return fault;
}

ArrayForm form_of(const Variable& variable) { return {variable.dtype(), variable.shape()}; }

}  // namespace

std::string shared_fault(const Checkpoint::Values& state, const Optimizer& optimizer,
                         std::optional<std::int64_t> steps) {
  for (const Variable& variable : optimizer.state().all()) {
    const auto found = state.find(variable.name());
    if (!is_shared(variable) || found == state.end()) continue;
    auto [least, most, counts_steps] = variable.range().value();
    if (counts_steps && steps) most = std::min(most, static_cast<double>(*steps));
    const bool is_whole = !is_floating(variable.dtype());
    const double* number = std::get_if<double>(&found->second);
    if (!number || !(*number >= least && *number <= most) || (is_whole && std::trunc(*number) != *number))
      return fmt::format("{} {}, expected a {}number, {} to {}", variable.name(),
                         number ? fmt::format("{}", *number) : "as another kind", is_whole ? "whole " : "", least,
                         most);
  }
  return {};
}

void check_ranges(const Checkpoint& checkpoint, const std::string& file, const Model& model,
                  const Optimizer* optimizer) {
  const std::string fault = array_fault(checkpoint, model, optimizer);
  if (!fault.empty()) fail(Fault::checkpoint, file, ": ", fault, "; use another or an older checkpoint");
}

void check_saves(const Checkpoint& checkpoint, const Model& model, const Optimizer* optimizer) {
  std::string fault = array_fault(checkpoint, model, optimizer);
  if (fault.empty() && optimizer) fault = shared_fault(checkpoint.state, *optimizer);
  if (!fault.empty()) fail(Fault::non_finite, "the checkpoint is not written: ", fault, "; go back to an older one");
}

bool is_shared(const Variable& variable) { return variable.name().starts_with("shared."); }

void add(const Model& model, Checkpoint& checkpoint) {
  for (const Variable& variable : model.parameters().all()) checkpoint.model[variable.name()] = variable.array();
}

void add(const Optimizer& optimizer, Checkpoint& checkpoint) {
  checkpoint.optimizer_type = optimizer.options().rule.kind();
  checkpoint.optimizer_options["options"] = optimizer.options().rule.text();
  for (const Variable& variable : optimizer.state().all()) {
    const auto [parameter, buffer] = split_name(variable.name());
    if (is_shared(variable))
      checkpoint.state[variable.name()] = variable.array().item();
    else
      checkpoint.optimizer[parameter][buffer] = variable.array();
  }
}

ArrayForms forms_of(const Model& model) {
  ArrayForms forms;
  for (const Variable& variable : model.parameters().all()) forms[variable.name()] = form_of(variable);
  return forms;
}

std::map<std::string, ArrayForms> forms_of(const Optimizer& optimizer) {
  std::map<std::string, ArrayForms> forms;
  for (const Variable& variable : optimizer.state().all()) {
    const auto [parameter, buffer] = split_name(variable.name());
    if (!is_shared(variable)) forms[parameter][buffer] = form_of(variable);
  }
  return forms;
}

void restore(const Checkpoint& checkpoint, const std::string& file, const Model& model, const Optimizer* optimizer) {
  check_ranges(checkpoint, file, model, optimizer);
  Values values;
  take_model(model, checkpoint, file, values);
  if (optimizer) take_optimizer(*optimizer, checkpoint, file, values);
  for (const auto& [variable, array] : values) variable.set(array);
}

}  // namespace nixie
