// Reads the whole file, so that what is printed has passed every check.
#include "nixie/apps/trainer/commands/checkpoint_command.h"

#include "nixie/models/io/checkpoint.h"
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
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

std::string values_text(const char* title, const Checkpoint::Values& values) {
  if (values.empty()) return {};
  std::string text = title;
  for (const auto& [name, value] : values) text += fmt::format(" {} {}", name, value_text(value));
  return text + "\n";
}

std::string checkpoint_text(const Checkpoint& checkpoint) {
  std::string text = "written by " + checkpoint.writer + "\n";
  text += values_text("state:", checkpoint.state) + values_text("random numbers:", checkpoint.rng);
  if (!checkpoint.input_shape.empty())
    text += fmt::format("input [{}] of a picture whose short side is {}, mean [{}], deviation [{}]\n",
                        fmt::join(checkpoint.input_shape, ", "), checkpoint.short_side,
                        fmt::join(checkpoint.mean, ", "), fmt::join(checkpoint.deviation, ", "));
  if (!checkpoint.class_names.empty())
    text += fmt::format("{} classes: {}\n", checkpoint.class_names.size(), fmt::join(checkpoint.class_names, ", "));
  text += arrays_text(checkpoint.model, "model");
  if (!checkpoint.ema.empty()) text += arrays_text(checkpoint.ema, "averages");
  NamedArrays buffers;
  for (const auto& [parameter, arrays] : checkpoint.optimizer)
    for (const auto& [name, array] : arrays) buffers[parameter + "." + name] = array;
  return text + arrays_text(buffers, ("optimizer " + checkpoint.optimizer_type).c_str());
}

}  // namespace

std::string inspect_text(const std::filesystem::path& file) {
  return is_checkpoint(file) ? checkpoint_text(load_checkpoint(file)) : arrays_text(read_weights(file), "safetensors");
}

std::string config_of(const std::filesystem::path& file) {
  const std::string config = load_checkpoint(file).config;
  if (config.empty()) fail(Fault::checkpoint, file.string(), ": has no configuration");
  return config;
}

}  // namespace nixie
