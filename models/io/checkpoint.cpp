// The layout of a checkpoint file; models/io/checkpoint_block.h checks the bytes, core/files/hdf5_*.h the
// HDF5 structure.
#include "nixie/models/io/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "nixie/core/base/fields.h"
#include "nixie/core/files/hdf5_reader.h"
#include "nixie/core/files/hdf5_writer.h"
#include "nixie/core/state/variable.h"
#include "nixie/models/io/array_values.h"
#include "nixie/models/io/checkpoint_block.h"
#include "nixie/models/io/durable_file.h"

namespace nixie {
namespace {

using hdf5::Reader;
using hdf5::Writer;

constexpr std::size_t kMaxShown = 100;         // bytes of a refused name that the message repeats
constexpr std::size_t kMaxAttribute = 60'000;  // larger ones would leave the checksummed object header
constexpr std::size_t kMaxText = 1 << 20;
constexpr std::size_t kMaxClasses = 100'000;  // Reader takes no more texts,
constexpr std::size_t kMaxNames = 99'900;     // and no more names, of which every file has some
constexpr const char* kFormat = "nixie-checkpoint";
const std::vector<std::string> kObjects = {"class_names", "config", "ema", "model", "optimizer", "rng", "state"};
constexpr const char* kLayout = "row-major, images NCHW, convolution weights OIHW, linear weights (out, in)";
const std::vector<std::string> kLists = {"deviation", "input_shape", "mean"};  // attributes of the root
/// Its others, each with a value of its kind.
const Checkpoint::Values kAttributes = {
    {"format", kFormat},          {"format_version", std::int64_t{kCheckpointFormat}},
    {"layout", kLayout},          {"short_side", std::int64_t{1}},
    {"upright", std::int64_t{1}}, {"writer", std::string{}}};

void check_name(const std::string& name) {
  const std::string fault = name_fault(name);
  std::string shown = name.substr(0, kMaxShown);
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  check(fault.empty(), "checkpoint: name \"", shown, "\", ", fault);
}

void check_text(const std::string& what, const std::string& text, std::size_t most) {
  check(text.size() <= most, "checkpoint: ", what, " has ", text.size(), " bytes, expected at most ", most);
  check(text.find('\0') == std::string::npos, "checkpoint: ", what, " has a zero byte, expected text");
}

std::string non_finite_array(const std::string& group, const Checkpoint::Arrays& arrays) {
  for (const auto& [name, array] : arrays)
    if (!is_finite(array)) return group + "/" + name;
  return {};
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
  file.attribute("/", "layout", kLayout);
  if (!c.input_shape.empty()) file.attribute("/", "input_shape", c.input_shape);
  if (c.short_side > 0) file.attribute("/", "short_side", c.short_side);
  if (c.upright) file.attribute("/", "upright", std::int64_t{1});
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
    if (const std::string fault = name_fault(name); !fault.empty())
      file.refuse(group, "holds an invalid name, " + fault);
  return names;
}

void check_known(Reader& file, const std::string& object, const char* what, const std::vector<std::string>& names,
                 const std::vector<std::string>& known) {
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      file.refuse(object, fmt::format("holds the unknown {} {}", what, field_text(name)));
}

/// The state and the random numbers are attributes; they hold no objects.
void check_no_objects(Reader& file, const std::string& group) {
  if (file.has(group)) check_known(file, group, "object", file.names(group), {});
}

/// In files of ours only the root, the optimizer, the state and the random numbers have attributes.
void check_plain(Reader& file, const std::string& object) {
  check_known(file, object, "attribute", file.attribute_names(object), {});
}

Checkpoint::Arrays read_arrays(Reader& file, const std::string& group, bool is_ours) {
  if (is_ours) check_plain(file, group);
  Checkpoint::Arrays arrays;
  for (const std::string& name : checked_names(file, group)) {
    arrays[name] = file.array(group + "/" + name);
    if (is_ours) check_plain(file, group + "/" + name);
  }
  return arrays;
}

std::string text_of(const ArrayForm& form) { return fmt::format("{} {}", to_string(form.dtype), form.shape); }

/// A file whose block was checked.
struct Checked {
  std::uint32_t format;
  std::unique_ptr<Reader> reader;
};

/// Both see one file: where another took its name in between, that one is checked. HDF5 opens none by its descriptor.
Checked open_checked(const FilePlace& place, bool unchecked) {
  for (;;) {
    CheckpointFile file(place);
    const std::uint32_t format = file.check_block(unchecked);
    auto reader = std::make_unique<Reader>(place);
    if (reader->reads(file.descriptor())) return {format, std::move(reader)};
  }
}

/// Refuses names and forms other than those expected, before any array is read. `owner` is who expects them.
void check_arrays(Reader& file, const std::string& file_name, const std::string& group, const ArrayForms& expected,
                  const char* owner, bool is_complete = true) {
  const std::vector<std::string> names = checked_names(file, group);
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    const auto known = expected.find(name);
    const ArrayForm form = file.form(group + "/" + name);
    if (known == expected.end())
      differences.push_back(fmt::format("{} ({}) is unknown to the {}", name, text_of(form), owner));
    else if (form != known->second)
      differences.push_back(fmt::format("{} is {}, the {} has {}", name, text_of(form), owner, text_of(known->second)));
    else
      file.allow(form);
  }
  const std::set<std::string> there(names.begin(), names.end());
  for (const auto& [name, form] : expected)
    if (is_complete && !there.contains(name))
      differences.push_back(fmt::format("{} ({}) is missing", name, text_of(form)));
  if (differences.empty()) return;
  constexpr std::size_t kShown = 4;
  const std::size_t shown = std::min(differences.size(), kShown);
  fail(
      Fault::checkpoint, file_name, ": ", group, ": ",
      fmt::format("{}", fmt::join(differences.begin(), differences.begin() + static_cast<std::ptrdiff_t>(shown), "; ")),
      differences.size() > shown ? fmt::format("; and {} more differences", differences.size() - shown) : "",
      "; load it with the ", owner, " it was saved from");
}

/// Optimizer state may only name what the model has.
void check_parameters(Reader& file, const ArrayForms& model) {
  for (const std::string& name : checked_names(file, "/optimizer"))
    if (!model.contains(name)) file.refuse("/optimizer/" + name, "belongs to no parameter of the model");
}

/// Averages of halves are f32.
ArrayForms average_forms(ArrayForms model) {
  for (auto& [name, form] : model)
    if (form.dtype == Dtype::f16) form.dtype = Dtype::f32;
  return model;
}

void check_forms(Reader& file, const std::string& file_name, const LoadOptions& options) {
  if (options.model) {
    check_arrays(file, file_name, "/model", *options.model, "model");
    check_arrays(file, file_name, "/ema", average_forms(*options.model), "model", false);
    check_parameters(file, *options.model);
  }
  if (!options.optimizer) return;
  for (const std::string& name : checked_names(file, "/optimizer"))
    if (!options.optimizer->contains(name)) file.refuse("/optimizer/" + name, "is unknown to the optimizer");
  for (const auto& [parameter, buffers] : *options.optimizer)
    check_arrays(file, file_name, "/optimizer/" + parameter, buffers, "optimizer");
}

std::string text_of(const Checkpoint::Values& values, const std::string& name) {
  const auto found = values.find(name);
  const auto* text = found == values.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text ? *text : std::string{};
}

void read_texts(Reader& file, Checkpoint& c) {
  if (file.has("/config")) {
    const std::vector<std::string> config = file.strings("/config");
    if (config.size() != 1) file.refuse("/config", fmt::format("holds {} texts, expected one", config.size()));
    c.config = config[0];
  }
  if (file.has("/class_names")) c.class_names = file.strings("/class_names");
}

/// The root's attributes: all known, each of its kind, and of no newer format than the file's first block. True where
/// the file is one of ours.
bool read_root(Reader& file, Checkpoint& c, const LoadOptions& options, std::uint32_t format) {
  const Checkpoint::Values root = file.attributes("/", kLists);
  const bool is_ours = text_of(root, "format") == kFormat;
  if (!is_ours && !options.unchecked) file.refuse("/", "is of another format, expected " + std::string(kFormat));
  for (const auto& [name, value] : root) {
    const auto known = kAttributes.find(name);
    if (known == kAttributes.end()) file.refuse("/", "holds the unknown attribute " + field_text(name));
    if (value.index() != known->second.index()) file.refuse("/ @" + name, "has a value of another kind");
  }
  if (const auto layout = root.find("layout"); layout != root.end() && layout->second != kAttributes.at("layout"))
    file.refuse("/", "holds another layout than " + field_text(kLayout));
  const auto number = [&](const char* name, std::int64_t otherwise) {
    const auto found = root.find(name);
    return found == root.end() ? otherwise : std::get<std::int64_t>(found->second);
  };
  const std::int64_t version = number("format_version", 1);
  if (version < 1 || (format > 0 && version > format))
    file.refuse("/", fmt::format("holds the format_version {}, expected 1 to {}", version, format));
  c.short_side = number("short_side", 0);
  if (c.short_side < 1 && root.contains("short_side"))
    file.refuse("/", "holds a short_side that is no number from 1 on");
  const std::int64_t upright = number("upright", 0);
  if (upright < 0 || upright > 1) file.refuse("/", fmt::format("holds upright {}, expected 0 or 1", upright));
  c.upright = upright == 1;
  c.writer = text_of(root, "writer");
  c.input_shape = file.numbers("/", "input_shape");
  c.mean = file.numbers("/", "mean");
  c.deviation = file.numbers("/", "deviation");
  return is_ours;
}

/// All but the arrays.
void read_header(Reader& file, Checkpoint& c) {
  c.optimizer_options = file.attributes("/optimizer");
  c.optimizer_type = text_of(c.optimizer_options, "type");
  c.optimizer_options.erase("type");
  c.state = file.attributes("/state");
  c.rng = file.attributes("/rng");
  read_texts(file, c);
}

}  // namespace

void check_storable(const Checkpoint& c) {
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
  std::size_t names = c.model.size() + c.ema.size() + c.optimizer.size() + c.state.size() + c.rng.size();
  for (const auto& [parameter, buffers] : c.optimizer) names += buffers.size();
  check(names <= kMaxNames, "checkpoint: more than ", kMaxNames, " names of arrays and numbers, expected fewer");
  check(c.class_names.size() <= kMaxClasses, "checkpoint: ", c.class_names.size(), " classes, expected at most ",
        kMaxClasses);
  for (const std::string& name : c.class_names) check_text("class name", name, kMaxText);
  check(std::max(c.mean.size(), c.deviation.size()) * sizeof(double) <= kMaxAttribute,
        "checkpoint: mean and deviation have ", c.mean.size(), " and ", c.deviation.size(),
        " channels, expected fewer");
}

std::string non_finite_array(const Checkpoint& c) {
  std::string found = non_finite_array("/model", c.model);
  if (found.empty()) found = non_finite_array("/ema", c.ema);
  for (const auto& [parameter, buffers] : c.optimizer)
    if (found.empty()) found = non_finite_array("/optimizer/" + parameter, buffers);
  return found;
}

void check_averages(const Checkpoint& c, const std::filesystem::path& file) {
  const auto refuse = [&](const auto&... what) {
    fail(Fault::checkpoint, file.string(), ": /ema", what..., "; use another or an older checkpoint");
  };
  if (c.ema.empty()) return;
  for (const auto& [name, array] : c.model)
    if (!c.ema.contains(name)) refuse(" has no ", name, ", but averages of other arrays");
  for (const auto& [name, average] : c.ema) {
    const auto found = c.model.find(name);
    if (found == c.model.end()) refuse("/", name, " is no average of an array of the model");
    if (found->second.shape() != average.shape())
      refuse("/", name, " is ", average.shape(), ", but the model's array ", found->second.shape());
  }
}

void save_checkpoint(const Checkpoint& checkpoint, const FilePlace& place) {
  const std::string path = place.path().string();
  check_storable(checkpoint);
  if (const std::string name = non_finite_array(checkpoint); !name.empty())
    fail(Fault::non_finite, path, ": ", name,
         " is not finite, so the checkpoint is not written; go back to an older one");
  const hdf5::Image image = build(checkpoint);
  write_block(image.span());
  PendingFile file(place, image.size);
  file.write(image.span());
  file.sync();
  try {
    CheckpointFile(file.readable(), "the new file").check_block(false);
  } catch (const Error& error) {
    const bool is_refused = error.fault() != Fault::checkpoint;  // by the system, so it may be whole
    fail(Fault::storage, path,
         is_refused ? ": what was written cannot be checked: " : ": what was written does not read back: ",
         error.what(), "; the old file is untouched");
  }
  file.publish();
}

Checkpoint load_checkpoint(const FilePlace& place, const LoadOptions& options) {
  auto [format, reader] = open_checked(place, options.unchecked);
  Reader& file = *reader;
  check_known(file, "/", "object", file.names("/"), kObjects);
  Checkpoint c;
  const bool is_ours = read_root(file, c, options, format);
  if (is_ours) {
    for (const char* text : {"/config", "/class_names"}) check_plain(file, text);
    for (const char* group : {"/state", "/rng"}) check_no_objects(file, group);
  }
  read_header(file, c);
  if (options.accept) options.accept(c);
  if (options.header_only) return c;
  check_forms(file, place.path().string(), options);
  c.model = read_arrays(file, "/model", is_ours);
  c.ema = read_arrays(file, "/ema", is_ours);
  for (const std::string& parameter : checked_names(file, "/optimizer"))
    c.optimizer[parameter] = read_arrays(file, "/optimizer/" + parameter, is_ours);
  if (is_ours)
    if (const std::string name = non_finite_array(c); !name.empty())
      file.refuse(name, "is not finite, which no checkpoint is written with");
  return c;
}

void verify_checkpoint(const FilePlace& place) { CheckpointFile(place).check_block(false); }

}  // namespace nixie
