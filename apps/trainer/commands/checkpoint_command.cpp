// Reads the whole file, so that what is printed has passed every check.
#include "nixie/apps/trainer/commands/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/snapshot.h"
#include "nixie/configs/parse/differences.h"
#include "nixie/core/base/one_line.h"
#include "nixie/models/io/checkpoint.h"
#include "nixie/models/io/checkpoint_state.h"
#include "nixie/models/io/safetensors.h"
#include "nixie/models/io/weights.h"

namespace nixie {
namespace {

bool is_checkpoint(const std::filesystem::path& file) { return file.extension() != ".safetensors"; }

std::string arrays_text(const NamedArrays& arrays, const char* title) {
  std::int64_t elements = 0, bytes = 0;
  std::string lines;
  for (const auto& [name, array] : arrays) {
    elements += array.size();
    bytes += array.size_bytes();
    lines += fmt::format("  {:44} {:5} {}\n", name, array.dtype(), array.shape());
  }
  return fmt::format("{}: {} arrays, {} elements, {} bytes\n", title, arrays.size(), elements, bytes) + lines;
}

std::string value_text(const Checkpoint::Value& value) {
  return one_line(std::visit([](const auto& held) { return fmt::format("{}", held); }, value));
}

std::string values_text(const char* title, const Checkpoint::Values& values) {
  if (values.empty()) return {};
  std::string text = title;
  for (const auto& [name, value] : values) text += fmt::format(" {} {}", name, value_text(value));
  return text + "\n";
}

std::string checkpoint_text(const Checkpoint& checkpoint) {
  std::string text = one_line("written by " + checkpoint.writer) + "\n";
  text += values_text("state:", checkpoint.state) + values_text("random numbers:", checkpoint.rng);
  if (!checkpoint.input_shape.empty())
    text += fmt::format("input [{}] of a picture whose short side is {}, mean [{}], deviation [{}], {}\n",
                        fmt::join(checkpoint.input_shape, ", "), checkpoint.short_side,
                        fmt::join(checkpoint.mean, ", "), fmt::join(checkpoint.deviation, ", "),
                        checkpoint.upright ? "turned upright by its EXIF orientation" : "as it is stored");
  if (!checkpoint.class_names.empty())
    text += one_line(
                fmt::format("{} classes: {}", checkpoint.class_names.size(), fmt::join(checkpoint.class_names, ", "))) +
            "\n";
  text += arrays_text(checkpoint.model, "model");
  if (!checkpoint.ema.empty()) text += arrays_text(checkpoint.ema, "averages");
  NamedArrays buffers;
  for (const auto& [parameter, arrays] : checkpoint.optimizer)
    for (const auto& [name, array] : arrays) buffers[parameter + "." + name] = array;
  return text + arrays_text(buffers, one_line("optimizer " + checkpoint.optimizer_type).c_str());
}

/// All arrays of a file under the names that `inspect` shows.
NamedArrays all_arrays(const std::filesystem::path& file, Checkpoint& checkpoint) {
  if (!is_checkpoint(file)) return read_weights(file);
  checkpoint = load_checkpoint(file);
  NamedArrays all;
  for (const auto& [name, array] : checkpoint.model) all["model " + name] = array;
  for (const auto& [name, array] : checkpoint.ema) all["average " + name] = array;
  for (const auto& [parameter, arrays] : checkpoint.optimizer)
    for (const auto& [name, array] : arrays) all["optimizer " + parameter + "." + name] = array;
  return all;
}

/// "" where both hold the same elements.
std::string array_difference(const Array& first, const Array& second) {
  if (first.shape() != second.shape() || first.dtype() != second.dtype())
    return fmt::format("{} {} and {} {}", first.dtype(), first.shape(), second.dtype(), second.shape());
  const std::vector<double> a = first.to_vector<double>(), b = second.to_vector<double>();
  double most = 0, largest = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += a[i] != b[i];
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(a[i]));
  }
  if (count == 0) return {};
  return fmt::format("{} of {} elements differ, by {:.3g} at most (the largest is {:.3g})", count, a.size(), most,
                     largest);
}

std::string values_difference(const Checkpoint::Values& first, const Checkpoint::Values& second) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [name, value] : first) both[name].first = value_text(value);
  for (const auto& [name, value] : second) both[name].second = value_text(value);
  std::string text;
  for (const auto& [name, values] : both)
    if (values.first != values.second)
      text += fmt::format("{}: {} -> {}\n", name, values.first.empty() ? "nothing" : values.first,
                          values.second.empty() ? "nothing" : values.second);
  return text;
}

/// Refuses values that its arrays never have, as every reader does, where the checkpoint says what its model is.
void check_values(const Checkpoint& checkpoint, const std::filesystem::path& file) {
  if (checkpoint.config.empty() || checkpoint.input_shape.size() != 3) return;
  check_run_header(file, checkpoint);
  std::vector<std::int64_t> input = {1};
  for (const double size : checkpoint.input_shape) input.push_back(static_cast<std::int64_t>(size));
  std::optional<Model> model;
  try {
    model = built_model(saved_config(checkpoint, file), Shape(input));
  } catch (const Error&) {  // of a program with layers or data of its own
    return;
  }
  check_ranges(checkpoint, file.string(), *model);
}

/// The lines about a checkpoint's optimizer and the samples that its model takes.
Checkpoint::Values facts_of(const Checkpoint& checkpoint) {
  Checkpoint::Values facts = {{"optimizer", checkpoint.optimizer_type},
                              {"classes", fmt::format("{}", fmt::join(checkpoint.class_names, ", "))},
                              {"input", fmt::format("{}", fmt::join(checkpoint.input_shape, ", "))},
                              {"short side", checkpoint.short_side},
                              {"upright", std::int64_t{checkpoint.upright}},
                              {"mean", fmt::format("{}", fmt::join(checkpoint.mean, ", "))},
                              {"deviation", fmt::format("{}", fmt::join(checkpoint.deviation, ", "))}};
  for (const auto& [name, value] : checkpoint.optimizer_options) facts["optimizer " + name] = value;
  return facts;
}

std::string difference_text(const std::filesystem::path& first, const std::filesystem::path& second, bool& same) {
  Checkpoint before, after;
  const NamedArrays old_arrays = all_arrays(first, before), new_arrays = all_arrays(second, after);
  std::string text = values_difference(before.state, after.state) + values_difference(before.rng, after.rng);
  const bool are_checkpoints = is_checkpoint(first) && is_checkpoint(second);
  if (are_checkpoints) text += values_difference(facts_of(before), facts_of(after));
  if (are_checkpoints && before.config.empty() != after.config.empty())
    text += fmt::format("config: only in the {}\n", before.config.empty() ? "second" : "first");
  else if (are_checkpoints && !before.config.empty())
    for (const std::string& change : config_differences(saved_tree(before, first), saved_tree(after, second)))
      text += "config " + change + "\n";
  std::size_t equal = 0;
  for (const auto& [name, array] : old_arrays) {
    const auto found = new_arrays.find(name);
    const std::string difference =
        found == new_arrays.end() ? "only in the first" : array_difference(array, found->second);
    equal += difference.empty();
    if (!difference.empty()) text += name + ": " + difference + "\n";
  }
  for (const auto& [name, array] : new_arrays)
    if (!old_arrays.contains(name)) text += name + ": only in the second\n";
  same = text.empty();
  return text + fmt::format("{} of {} arrays are equal\n", equal, std::max(old_arrays.size(), new_arrays.size()));
}

void convert_checkpoint(const std::filesystem::path& in, const std::filesystem::path& out) {
  check(out.extension() == ".h5" || out.extension() == ".safetensors", out.string(),
        " ends neither in .h5 nor in .safetensors; name one of these, or export it");
  check_output(out);
  check(!std::filesystem::exists(out), out.string(), " is there already; name another file");
  const Checkpoint checkpoint = load_checkpoint(in);
  check_values(checkpoint, in);
  if (is_checkpoint(out)) return save_checkpoint(checkpoint, out);
  check_averages(checkpoint, in);
  NamedArrays weights = checkpoint.model;
  for (const auto& [name, average] : checkpoint.ema) weights[name] = average;
  save_safetensors({.arrays = std::move(weights), .metadata = {{"format", "pt"}}}, out);
}

std::string inspect_text(const std::filesystem::path& file) {
  if (is_checkpoint(file)) return checkpoint_text(load_checkpoint(file));
  std::vector<std::string> skipped;
  std::string text = arrays_text(read_weights(file, {}, &skipped), "safetensors");
  for (const std::string& name : skipped) text += one_line("  " + name) + ": of a type that nixie has not, left out\n";
  return text;
}

std::string config_of(const std::filesystem::path& file) {
  const std::string config = load_checkpoint(file).config;
  if (config.empty()) fail(Fault::checkpoint, file.string(), ": has no configuration");
  return config;
}

}  // namespace

int run_checkpoint(const CheckpointCommand& command) {
  const bool takes_two = command.action == "diff" || command.action == "convert";
  check(takes_two == !command.other.empty(), "checkpoint ", command.action, " takes ", takes_two ? 2 : 1, " files");
  if (command.action == "diff") {
    bool is_same = false;
    tell("{}", difference_text(command.file, command.other, is_same));
    return is_same ? 0 : 1;
  }
  if (command.action == "convert") {
    convert_checkpoint(command.file, command.other);
    tell("{}: written\n", command.other);
    return 0;
  }
  if (command.action == "inspect") {
    tell("{}", inspect_text(command.file));
  } else if (command.action == "config") {
    tell("{}", config_of(command.file));
  } else {
    verify_checkpoint(command.file);
    tell("{}: whole\n", command.file);
  }
  return 0;
}

}  // namespace nixie
