// Prints what a configuration can name from the lists of fields; no key is named here.
#include "nixie/apps/trainer/commands/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "nixie/configs/parse/config.h"
#include "nixie/core/files/open_to_read.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTitle = R"(# Configurations

A configuration is a YAML file with the keys of the first table; `model`, `data` and `epochs` (or `steps`) are required. A model, layer,
loss and the like is written `{name: {keys}}`, or just `name` with all defaults; its name is in bold in a table below, over its keys.
`trainer config --config FILE` prints a configuration with every default, `--set key.path=value` changes a value, and a wrong key or value
is reported with its line.

A layer may have a name, which becomes the prefix of its parameters: `{conv2d: {out: 64}, name: conv1}`, and may read other layers of its
list than the one before it: `{concat: {}, input: [conv1, conv2]}` ([nets.md](nets.md)). Initialisers are
`constant: {value}`, `uniform: {low, high}`, `normal: {deviation, mean}`, `glorot: {gain}`, `kaiming: {gain}` and `orthonormal: {scale}`.

Anchors, aliases and merge keys of YAML work, and keys at the top that begin with a dot only hold anchors:
```yaml
.conv: &conv {kernel: 3, pad: same, bias: false}
model:
  - conv2d: {<<: *conv, out: 24}
  - relu
```

`trainer list` prints all keys on the terminal, `trainer list optimizers` (or models, layers, losses, metrics, schedules, datasets) a part of them, and
`trainer list configs` the configurations that came with the program. `trainer list --markdown` prints this page from the program itself:
from the text beside each field, in configs/parse/config.h and in `fields()` of the structs of layers, data and optimizers.
)";

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {
  using Element = T;
};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
std::string type_text() {
  if constexpr (std::is_same_v<T, bool>)
    return "true or false";
  else if constexpr (std::is_integral_v<T>)
    return "integer";
  else if constexpr (std::is_floating_point_v<T>)
    return "number";
  else if constexpr (std::is_same_v<T, std::string>)
    return "text";
  else if constexpr (std::is_same_v<T, Path>)
    return "path";
  else if constexpr (std::is_same_v<T, PerAxis>)
    return "integer, or one per axis";
  else if constexpr (std::is_same_v<T, Init>)
    return "initialiser";
  else if constexpr (std::is_same_v<T, AnyModel>)
    return "model, or a list of layers";
  else if constexpr (std::is_same_v<T, AnyLoss>)
    return "loss";
  else if constexpr (std::is_same_v<T, AnyMetric>)
    return "metric";
  else if constexpr (std::is_same_v<T, AnyOptimizer>)
    return "optimizer";
  else if constexpr (std::is_same_v<T, AnySchedule>)
    return "schedule";
  else if constexpr (std::is_same_v<T, AnyDataset>)
    return "data";
  else if constexpr (std::is_same_v<T, NamedLayer>)
    return "layer";
  else if constexpr (IsOptional<T>::value)
    return type_text<typename T::value_type>() + " or null";
  else if constexpr (IsList<T>::value)
    return "list: " + type_text<typename IsList<T>::Element>();
  else
    return fmt::format("[{}](#{})", T::name, T::name);  // a struct with a table of its own
}

std::string range_text(const Range& range) {
  if (*range.words) return fmt::format("{}", fmt::join(words_of(range), ", "));
  if (std::isinf(range.low) && std::isinf(range.high)) return {};
  if (std::isinf(range.high)) return fmt::format("{} up", range.low);
  if (std::isinf(range.low)) return fmt::format("up to {}", range.high);
  return fmt::format("{} to {}", range.low, range.high);
}

template <Options T>
std::string rows() {
  std::string text;
  for_each_field<T>([&](const auto& field) {
    using Value = std::remove_cvref_t<decltype(std::declval<T>().*field.member)>;
    text += fmt::format("| {} | {} | `{}` | {} | {} |\n", field.key, type_text<Value>(), field_text(T{}.*field.member),
                        range_text(field.range), field.doc);
  });
  return text;
}

std::string table(const std::string& title, const std::string& rows) {
  return fmt::format("\n## {}\n| key | type | default | range | meaning |\n|---|---|---|---|---|\n{}", title, rows);
}

/// One table: a row with the names of each kind, and its keys below. Kinds that have the same keys share these.
template <class List>
std::string kinds(const char* title) {
  struct Kind {
    std::string names, contents, keys;
  };
  std::vector<Kind> all;
  List::for_each([&]<class T>() {
    Kind kind{fmt::format("<a id=\"{0}\"></a>**{0}**", T::name), "a list of layers", {}};
    if constexpr (Options<T>) kind.keys = rows<T>(), kind.contents = kind.keys.empty() ? "no keys" : "";
    const auto same =
        std::ranges::find_if(all, [&](const Kind& k) { return k.contents == kind.contents && k.keys == kind.keys; });
    if (same == all.end())
      all.push_back(kind);
    else
      same->names += ", " + kind.names;
  });
  std::string text;
  for (const Kind& kind : all) text += fmt::format("| {} | {} | | | |\n{}", kind.names, kind.contents, kind.keys);
  return table(title, text);
}

template <Options T>
std::string described() {
  const T defaults;
  std::string text = fmt::format("  {}\n", T::name);
  for_each_field<T>([&](const auto& field) {
    text += fmt::format("    {}: {}  # {}\n", field.key, field_text(defaults.*field.member), field.doc);
  });
  return text;
}

/// The files of `configs/` that came with the program, each with its first sentence.
std::string shipped_configs_text() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  std::string text;
  for (const std::string& file : shipped_configs(program)) {
    std::ifstream stream = open_to_read(found_config(file, program), Fault::usage, "install nixie again");
    std::string line;
    std::getline(stream, line);
    text += fmt::format("  {:36}{}\n", file, line.starts_with("# ") ? line.substr(2) : "");
  }
  return text;
}

template <class List>
std::string described_list(const char* title) {
  std::string text = fmt::format("{}\n", title);
  List::for_each([&]<class T>() {
    if constexpr (Options<T>)
      text += described<T>();
    else
      text += fmt::format("  {}: a list\n", T::name);
  });
  return text;
}

struct ListPart {
  const char* name;
  std::string (*text)(const char* name);
};
const ListPart kListParts[] = {
    {"configuration", [](const char* name) { return fmt::format("{}\n{}", name, described<TrainConfig>()); }},
    {"models", described_list<AllModels>},
    {"layers", described_list<AllLayers>},
    {"losses", described_list<AllLosses>},
    {"metrics", described_list<AllMetrics>},
    {"optimizers", described_list<AllOptimizers>},
    {"schedules", described_list<AllSchedules>},
    {"datasets", described_list<AllDatasets>},
    {"configs", [](const char* name) { return fmt::format("{}\n{}", name, shipped_configs_text()); }},
};

}  // namespace

std::string reference_text() {
  return kTitle + table("The whole file", rows<TrainConfig>()) +
         kinds<Types<ParameterGroup, FormatRule, SumsOptions, StatisticsOptions, MixingOptions, LoaderOptions, Augment,
                     Warmup, WeightedLoss>>("Parts") +
         kinds<AllDatasets>("Data") + kinds<AllModels>("Models") + kinds<AllLayers>("Layers") +
         kinds<AllLosses>("Losses") + kinds<AllMetrics>("Metrics") + kinds<AllOptimizers>("Optimizers") +
         kinds<AllSchedules>("Schedules");
}

const std::vector<std::string>& list_parts() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const ListPart& part : kListParts) all.push_back(part.name);
    return all;
  }();
  return names;
}

std::string list_text(const std::string& name) {
  std::string text;
  for (const ListPart& part : kListParts)
    if (name.empty() || name == part.name) text += part.text(part.name);
  return text;
}

}  // namespace nixie
