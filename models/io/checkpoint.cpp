// What stands where in a checkpoint file; models/io/checkpoint_block.h guards the bytes, models/hdf5_*.h the structure.
#include "nixie/models/io/checkpoint.h"

#include <algorithm>

#include "nixie/models/io/checkpoint_block.h"
#include "nixie/models/io/durable_file.h"
#include "nixie/models/io/hdf5_reader.h"
#include "nixie/models/io/hdf5_writer.h"

namespace nixie {
namespace {

using hdf5::Reader;
using hdf5::Writer;

constexpr std::size_t kMaxName = 1024;
constexpr std::size_t kMaxShown = 100;         // bytes of a refused name that the message repeats
constexpr std::size_t kMaxAttribute = 60'000;  // larger ones would leave the checksummed object header
constexpr std::size_t kMaxText = 1 << 20;
constexpr const char* kFormat = "nixie-checkpoint";

/// What is wrong with a name, or "".
std::string fault_of(const std::string& name) {
  const bool is_printable =
      std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~' && c != '/'; });
  if (name.empty() || name.size() > kMaxName || !is_printable) return "expected printable ASCII without / or spaces";
  return name.find_first_not_of('.') == std::string::npos ? "expected more than dots" : "";
}

void check_name(const std::string& name) {
  const std::string fault = fault_of(name);
  std::string shown = name.substr(0, kMaxShown);
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  check(fault.empty(), "checkpoint: name \"", shown, "\", ", fault);
}

void check_text(const std::string& what, const std::string& text, std::size_t most) {
  check(text.size() <= most, "checkpoint: ", what, " has ", text.size(), " bytes, expected at most ", most);
  check(text.find('\0') == std::string::npos, "checkpoint: ", what, " has a zero byte, expected text");
}

void check_sound(const Checkpoint& c) {
  for (const Checkpoint::Arrays* arrays : {&c.model, &c.ema})
    for (const auto& [name, array] : *arrays) check_name(name);
  for (const auto& [parameter, buffers] : c.optimizer) {
    check_name(parameter);
    for (const auto& [name, array] : buffers) check_name(name);
  }
  for (const Checkpoint::Values* values : {&c.state, &c.rng, &c.optimizer_options})
    for (const auto& [name, value] : *values) {
      check_name(name);
      if (const auto* text = std::get_if<std::string>(&value)) check_text(name, *text, kMaxAttribute);
    }
  check(!c.optimizer_options.contains("type"),
        "checkpoint: optimizer option \"type\" is taken by the optimizer's type");
  check_text("optimizer_type", c.optimizer_type, kMaxAttribute);
  check_text("writer", c.writer, kMaxAttribute);
  check_text("config", c.config, kMaxText);
  for (const std::string& name : c.class_names) check_text("class name", name, kMaxText);
  check(std::max(c.mean.size(), c.deviation.size()) * sizeof(double) <= kMaxAttribute,
        "checkpoint: mean and deviation have ", c.mean.size(), " and ", c.deviation.size(),
        " channels, expected fewer");
}

std::int64_t bytes_of(const Checkpoint::Arrays& arrays) {
  std::int64_t bytes = 0;
  for (const auto& [name, array] : arrays) bytes += array.size_bytes();
  return bytes;
}

std::int64_t bytes_of(const Checkpoint& c) {
  std::int64_t bytes = bytes_of(c.model) + bytes_of(c.ema);
  for (const auto& [parameter, buffers] : c.optimizer) bytes += bytes_of(buffers);
  return bytes + bytes / 256;  // the last chunks are not quite full
}

void write_arrays(Writer& file, const std::string& group, const Checkpoint::Arrays& arrays) {
  file.group(group);
  for (const auto& [name, array] : arrays) file.array(group + "/" + name, array);
}

void write_values(Writer& file, const std::string& group, const Checkpoint::Values& values) {
  for (const auto& [name, value] : values) file.attribute(group, name, value);
}

hdf5::Image build(const Checkpoint& c) {
  Writer file(kBlockBytes, bytes_of(c));
  file.attribute("/", "format", kFormat);
  file.attribute("/", "format_version", std::int64_t{kCheckpointFormat});
  file.attribute("/", "writer", c.writer);
  file.attribute("/", "layout", "row-major, images NCHW, convolution weights OIHW, linear weights (out, in)");
  if (!c.mean.empty()) file.attribute("/", "mean", c.mean);
  if (!c.deviation.empty()) file.attribute("/", "deviation", c.deviation);
  if (!c.config.empty()) file.strings("/config", {c.config});
  if (!c.class_names.empty()) file.strings("/class_names", c.class_names);
  write_arrays(file, "/model", c.model);
  if (!c.ema.empty()) write_arrays(file, "/ema", c.ema);
  file.group("/optimizer");
  file.attribute("/optimizer", "type", c.optimizer_type);
  write_values(file, "/optimizer", c.optimizer_options);
  for (const auto& [parameter, buffers] : c.optimizer) write_arrays(file, "/optimizer/" + parameter, buffers);
  file.group("/state");
  write_values(file, "/state", c.state);
  file.group("/rng");
  write_values(file, "/rng", c.rng);
  return file.finish();
}

std::vector<std::string> checked_names(Reader& file, const std::string& group) {
  std::vector<std::string> names = file.names(group);
  for (const std::string& name : names)
    if (const std::string fault = fault_of(name); !fault.empty())
      file.refuse(group, "holds a name that is none, " + fault);
  return names;
}

Checkpoint::Arrays read_arrays(Reader& file, const std::string& group) {
  Checkpoint::Arrays arrays;
  for (const std::string& name : checked_names(file, group)) arrays[name] = file.array(group + "/" + name);
  return arrays;
}

/// Refuses names and shapes that the model does not have, before any array is read.
void check_model(Reader& file, const std::string& file_name, const std::map<std::string, Shape>& expected) {
  const std::vector<std::string> names = checked_names(file, "/model");
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    const auto known = expected.find(name);
    const Shape shape = file.shape("/model/" + name);
    if (known == expected.end())
      differences.push_back(fmt::format("{} {} is unknown to the model", name, shape));
    else if (shape != known->second)
      differences.push_back(fmt::format("{} is {}, the model has {}", name, shape, known->second));
  }
  for (const auto& [name, shape] : expected)
    if (std::find(names.begin(), names.end(), name) == names.end())
      differences.push_back(fmt::format("{} {} is missing", name, shape));
  if (differences.empty()) return;
  constexpr std::size_t kShown = 4;
  const std::size_t shown = std::min(differences.size(), kShown);
  fail(
      Fault::checkpoint, file_name, ": /model: ",
      fmt::format("{}", fmt::join(differences.begin(), differences.begin() + static_cast<std::ptrdiff_t>(shown), "; ")),
      differences.size() > shown ? fmt::format("; and {} more differences", differences.size() - shown) : "",
      "; load it with the model it was saved from");
}

/// EMA and optimizer state may only name what the model has.
void check_parameters(Reader& file, const std::string& group, const std::map<std::string, Shape>& expected) {
  for (const std::string& name : checked_names(file, group))
    if (!expected.contains(name)) file.refuse(group + "/" + name, "belongs to no parameter of the model");
}

std::string text_of(const Checkpoint::Values& values, const std::string& name) {
  const auto found = values.find(name);
  const auto* text = found == values.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text ? *text : std::string{};
}

void read_optimizer(Reader& file, Checkpoint& c) {
  c.optimizer_options = file.attributes("/optimizer");
  c.optimizer_type = text_of(c.optimizer_options, "type");
  c.optimizer_options.erase("type");
  for (const std::string& parameter : checked_names(file, "/optimizer"))
    c.optimizer[parameter] = read_arrays(file, "/optimizer/" + parameter);
}

void read_texts(Reader& file, Checkpoint& c) {
  if (file.has("/config")) {
    const std::vector<std::string> config = file.strings("/config");
    if (config.size() != 1) file.refuse("/config", fmt::format("holds {} texts, expected one", config.size()));
    c.config = config[0];
  }
  if (file.has("/class_names")) c.class_names = file.strings("/class_names");
  c.mean = file.numbers("/", "mean");
  c.deviation = file.numbers("/", "deviation");
}

}  // namespace

void save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& path) {
  check_sound(checkpoint);
  const hdf5::Image image = build(checkpoint);
  write_block(image.span());
  PendingFile file(path, image.size);
  file.write(image.span());
  file.sync();
  try {
    verify_checkpoint(file.temporary());
  } catch (const Error&) {
    fail(Fault::storage, path.string(),
         " does not read back as it was written, the disk may be failing; what stood there is untouched");
  }
  file.publish();
}

Checkpoint load_checkpoint(const std::filesystem::path& path, const LoadOptions& options) {
  check_block(path, options.unchecked);
  Reader file(path);
  const Checkpoint::Values root = file.attributes("/");
  const bool is_ours = text_of(root, "format") == kFormat;
  if (!is_ours && !options.unchecked) file.refuse("/", "is of another format, expected " + std::string(kFormat));

  if (options.model) {
    check_model(file, path.string(), *options.model);
    check_parameters(file, "/ema", *options.model);
    check_parameters(file, "/optimizer", *options.model);
  }
  Checkpoint c;
  c.writer = text_of(root, "writer");
  c.model = read_arrays(file, "/model");
  c.ema = read_arrays(file, "/ema");
  read_optimizer(file, c);
  c.state = file.attributes("/state");
  c.rng = file.attributes("/rng");
  read_texts(file, c);
  return c;
}

void verify_checkpoint(const std::filesystem::path& path) { check_block(path, false); }

}  // namespace nixie
