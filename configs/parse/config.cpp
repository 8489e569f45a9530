// From YAML to TrainConfig and back. The meaning of a key is beside its field: config.h for those at the top, fields()
// of layers/*.h, data/*.h and optimizers/*.h for the others.
#include "nixie/configs/parse/config.h"

#include <algorithm>
#include <limits>

#include "nixie/core/base/check_fields.h"
#include "nixie/optimizers/loss_scale.h"

namespace nixie {
namespace {

// The keys that hold one name out of a list: `--set data.mnist.path=x` replaces another dataset.
const std::vector<std::string> kChoices = {"model", "loss", "optimizer", "schedule", "data"};

void check_word(const Tree& tree, const char* key, const std::string& word, const std::vector<std::string>& known,
                Problems& problems) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  const Tree* found = tree.find(key);
  add_unknown(found ? found->place : tree.place, key, word, known, problems);
}

void check_present(const Tree& tree, const char* key, Problems& problems) {
  if (!tree.find(key)) problems.add(tree.place, "the key ", key, " is missing");
}

/// Adds `KEY.NAME` for each type of the list that has the key.
template <class List>
void add_places(const char* part, const std::string& key, std::vector<std::string>& places) {
  List::for_each([&]<class T>() {
    if constexpr (Options<T>)
      for_each_field<T>([&](const auto& field) {
        if (key == field.key) places.push_back(fmt::format("{}.{}", part, T::name));
      });
  });
}

template <class T>
std::vector<std::string> keys_of() {
  std::vector<std::string> keys;
  if constexpr (Options<T>) for_each_field<T>([&](const auto& field) { keys.emplace_back(field.key); });
  return keys;
}

/// `schedule.cosine.rate` for `lr` where the schedule is cosine; "" where that part, or its default, has no such key.
template <class List>
std::string place_in_part(const Tree& tree, const char* part, const std::string& otherwise, const std::string& word) {
  const Tree* chosen = tree.find(part);
  const bool is_map = chosen && chosen->is_map() && chosen->entries.size() == 1;
  const std::string kind = is_map ? chosen->entries[0].key : chosen ? chosen->text : otherwise;
  std::string place;
  List::for_each([&]<class T>() {
    if (kind != T::name) return;
    if (const std::string key = known_word(word, keys_of<T>()); !key.empty())
      place = fmt::format("{}.{}.{}", part, kind, key);
  });
  return place;
}

std::string place_in_use(const Tree& tree, const std::string& word) {
  const TrainConfig otherwise;
  for (const std::string& place : {place_in_part<AllDatasets>(tree, "data", "", word),
                                   place_in_part<AllOptimizers>(tree, "optimizer", otherwise.optimizer.kind(), word),
                                   place_in_part<AllSchedules>(tree, "schedule", otherwise.schedule.kind(), word)})
    if (!place.empty()) return place;
  return {};
}

/// Takes out the keys that are none of the file's, but of a part that it chooses, and adds their places.
Tree without_misplaced(const Tree& tree, Problems& problems) {
  const std::vector<std::string> keys = keys_of<TrainConfig>();
  Tree rest = tree;
  std::erase_if(rest.entries, [&](const Tree::Entry& entry) {
    if (std::ranges::find(keys, entry.key) != keys.end()) return false;
    const std::string place = place_in_use(tree, entry.key);
    if (place.empty()) return false;
    const std::vector<std::string> owners = TrainConfig::places_of(entry.key);
    if (!owners.empty() && owners[0] + "." + entry.key == place) return false;  // what is said in any case
    problems.add(entry.place, "unknown key ", field_text(entry.key), "; in this configuration it is ", place,
                 did_you_mean(entry.key, keys));
    return true;
  });
  return rest;
}

/// The lines of a text that nobody has seen tell nobody anything.
void forget_lines(Tree& tree) {
  tree.place.line = 0;
  for (Tree& item : tree.items) forget_lines(item);
  for (Tree::Entry& entry : tree.entries) {
    entry.place.line = 0;
    forget_lines(entry.value);
  }
}

TrainConfig read_changed(Tree tree, const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments) override_yaml(tree, assignment, kChoices);
  return read_config(tree);
}

Model model_of(const TrainConfig& config, const Shape& input, Dtype parameters) {
  const Model built = at_key(config.places, "model", [&] {
    const Model model(config.model, input, config.seed, parameters);
    return config.mirror_average ? model.with_mirror_average() : model;
  });
  return at_key(config.places, "formats", [&] { return built.with_formats(config.formats); });
}

bool is_one_of(const std::string& kind, std::initializer_list<const char*> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// The kind of a layer, `relu` or `{relu: {...}, name: x}`, and its fields, if there are any.
std::pair<std::string, const Tree*> kind_of(const Tree& layer) {
  if (layer.is_scalar()) return {layer.text, nullptr};
  for (const Tree::Entry& entry : layer.entries)
    if (!is_one_of(entry.key, {"name", "input"})) return {entry.key, &entry.value};
  return {};
}

/// Adds a problem at the last layer of a list if it is a softmax or sigmoid, and the loss, which has the kind `loss`,
/// applies `function` itself ("": none).
void check_output_function(const Tree& model, const std::string& loss, const std::string& function,
                           Problems& problems) {
  if (function.empty()) return;
  for (std::size_t i = model.items.size(); i-- > 0;) {
    const auto [kind, fields] = kind_of(model.items[i]);
    if (kind == Sequential::name && fields) return check_output_function(*fields, loss, function, problems);
    if (is_one_of(kind, {Softmax::name, Sigmoid::name}))
      return problems.add(model.items[i].place, "the last layer is ", kind, ", but the loss ", loss,
                          " takes logits and applies ", function, " itself; remove the layer");
    if (!is_one_of(kind, {Identity::name, Flatten::name, ReshapeTo::name})) return;
  }
}

/// The folder configs that was installed with the program, or is beside its sources.
std::vector<std::filesystem::path> config_places(const std::filesystem::path& program) {
  const std::filesystem::path prefix = program.parent_path().parent_path(), build = prefix.parent_path();
  std::vector<std::filesystem::path> places = {prefix / "share/nixie"};
  if (build.filename() == "build") places.push_back(build.parent_path());  // build/release/bin of the sources
  return places;
}

/// Adds the YAML files of a folder by the names that `prefix` begins.
void add_yaml_files(const std::filesystem::path& folder, const std::filesystem::path& prefix,
                    std::vector<std::string>& names) {
  const std::size_t before = names.size();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".yaml") names.push_back((prefix / entry.path().filename()).string());
  std::sort(names.begin() + static_cast<std::ptrdiff_t>(before), names.end());
}

}  // namespace

std::int64_t TrainConfig::total_steps(std::int64_t steps_per_epoch) const {
  const std::int64_t by_epochs = epochs > 0 ? epochs * steps_per_epoch : std::numeric_limits<std::int64_t>::max();
  const std::int64_t total = steps > 0 ? std::min(steps, by_epochs) : by_epochs;
  check(epochs > 0 || steps > 0, "neither epochs nor steps says how long the run is");
  check(total <= std::numeric_limits<std::int32_t>::max(), "the run has ", total, " steps, expected at most ",
        std::numeric_limits<std::int32_t>::max());
  return total;
}

Model built_model(const TrainConfig& config, const Shape& input) {
  return model_of(config, input, parameter_dtype(config.policy()));
}

Model averaged_model(const TrainConfig& config, const Shape& input) { return model_of(config, input, Dtype::f32); }

std::vector<std::string> TrainConfig::places_of(const std::string& key) {
  std::vector<std::string> places;
  add_places<AllModels>("model", key, places);
  add_places<AllLosses>("loss", key, places);
  add_places<AllDatasets>("data", key, places);
  add_places<AllOptimizers>("optimizer", key, places);
  add_places<AllSchedules>("schedule", key, places);
  Types<LoaderOptions, MixingOptions, StatisticsOptions>::for_each([&]<class T>() {
    if (std::ranges::count(keys_of<T>(), key) > 0) places.emplace_back(T::name);
  });
  return places;
}

TrainConfig read_config(const Tree& tree) {
  TrainConfig config;
  Problems problems;
  if (const Tree* layers = tree.find("layers"); layers && layers->is_list() && !tree.find("model")) {
    problems.add(layers->place, "layers without a model, as in a file of neon; `trainer convert-neon FILE` converts ",
                 "one, and here the list of layers is the key model");
    problems.raise();
  }
  read(without_misplaced(tree, problems), config, problems);
  for (const char* key : {"model", "data"}) check_present(tree, key, problems);
  check_word(tree, "precision", config.precision, precision_names(), problems);
  config.places = Places(tree);
  if (const Tree* model = tree.find("model"))
    check_output_function(*model, config.loss.kind(), config.loss.output_function(), problems);
  if (const Tree* ema = tree.find("ema"); ema && config.ema <= 1 && static_cast<float>(config.ema) == 1)
    problems.add(ema->place, "ema is ", ema->text,
                 ", with which the average never changes, expected a number below 1 in f32");
  if (const Tree* scale = tree.find("loss_scale");
      scale && config.loss_scale > 0 && !holds(kLossScales, config.loss_scale))
    problems.add(scale->place, "loss_scale is ", scale->text, ", expected 0 (dynamic) or ", text_of(kLossScales));
  if (const Tree* metrics = tree.find("metrics"); metrics && metrics->items.size() == config.metrics.size())
    for (std::size_t i = 0; i < config.metrics.size(); ++i)
      for (std::size_t before = 0; before < i; ++before)
        if (field_text(config.metrics[i]) == field_text(config.metrics[before]))
          problems.add(metrics->items[i].place, "metrics.", i, " is ", config.metrics[i].kind(),
                       " again, expected each metric once");
  std::vector<std::string> figures = {"accuracy", "loss"};
  for (const std::string& name : metric_names(config.metrics)) figures.push_back(name);
  check_word(tree, "best_by", config.best_by, figures, problems);
  if (!tree.find("epochs") && !tree.find("steps"))
    problems.add(tree.place, "the length of the run is missing, expected epochs or steps");
  else if (problems.empty() && config.epochs == 0 && config.steps == 0)
    problems.add(tree.place, "epochs and steps are both 0, expected one of them to say how long the run is");
  if (config.noise_scale && config.accumulate < 2)
    problems.add(tree.find("noise_scale")->place,
                 "noise_scale compares the gradients of a step's batches, but accumulate is ", config.accumulate,
                 ", expected 2 or more");
  if (config.reduction == "ordered" && config.accumulate > 1)
    problems.add(tree.find("reduction")->place,
                 "reduction: ordered adds up the shards of one batch, but accumulate is ", config.accumulate,
                 ", expected 1; take a larger batch");
  if (config.reduction == "ordered" && (config.mixing.mixup > 0 || config.mixing.cutmix > 0))
    problems.add(tree.find("reduction")->place,
                 "reduction: ordered cannot mix samples of different shards; take mixing out");
  if (const Tree* file = tree.find("init_from"); file && !config.init_from.empty()) {
    const Scope scope("init_from");
    Path path;
    read_value(*file, path, problems);
    config.init_from = path.string();
  }
  problems.raise();
  if (!tree.find("schedule")) config.schedule = ConstantRate{.rate = config.optimizer.usual_rate()};
  return config;
}

std::filesystem::path found_config(const std::filesystem::path& file, const std::filesystem::path& program) {
  std::error_code ignored;
  if (file.is_absolute() || std::filesystem::exists(file, ignored)) return file;
  for (const std::filesystem::path& place : config_places(program))
    if (std::filesystem::is_regular_file(place / file, ignored)) return place / file;
  return file;
}

std::vector<std::string> shipped_configs(const std::filesystem::path& program) {
  std::vector<std::string> names;
  for (const std::filesystem::path& place : config_places(program))
    for (const char* folder : {"configs", "configs/recipes"}) {
      if (!names.empty() && names.back().starts_with(folder + std::string("/"))) continue;  // found in another place
      add_yaml_files(place / folder, folder, names);
    }
  return names;
}

std::string config_advice(const std::filesystem::path& file, const std::filesystem::path& program) {
  const std::filesystem::path folder = file.parent_path();
  std::vector<std::string> names;
  add_yaml_files(folder.empty() ? "." : folder, folder, names);
  const std::vector<std::string> shipped = shipped_configs(program);
  names.insert(names.end(), shipped.begin(), shipped.end());
  std::vector<std::string> stems;
  for (const std::string& name : names) stems.push_back(std::filesystem::path(name).stem().string());
  const std::string wanted = file.stem().string();
  const std::string near = did_you_mean(wanted, stems);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (stems[i] == wanted || (!near.empty() && did_you_mean(wanted, {stems[i]}) == near))
      return fmt::format("; did you mean \"{}\"?", names[i]);
  return shipped.empty() ? "" : "; `trainer list configs` names those that came with the program";
}

TrainConfig load_config(const FilePlace& file, const std::vector<std::string>& assignments) {
  const auto is_absent = [](const FilePlace& place) {
    std::error_code ignored;
    return place.status(ignored).type() == std::filesystem::file_type::not_found;
  };
  if (!is_absent(file)) return read_changed(load_yaml(file), assignments);
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const FilePlace found = found_config(file.path(), program);
  if (is_absent(found))
    fail(Fault::usage, file.path().string(), ": no such file, expected a YAML file",
         config_advice(file.path(), program));
  return read_changed(load_yaml(found), assignments);
}

TrainConfig parse_config(const std::string& text, const std::string& name,
                         const std::vector<std::string>& assignments) {
  return read_changed(parse_yaml(text, name), assignments);
}

TrainConfig with_assignments(const TrainConfig& config, const std::string& why,
                             const std::vector<std::string>& assignments) {
  Tree tree = parse_yaml(config_text(config), why);
  forget_lines(tree);
  TrainConfig result = read_changed(std::move(tree), assignments);
  result.places = config.places;
  return result;
}

std::string config_text(const TrainConfig& config) {
  const std::string start = "with every default";
  return at_key(config.places, "model", [&] {
    try {
      return print_yaml(parse_yaml(fields_text(config), start));
    } catch (const Error& error) {  // a limit of the reader; the user has no text with these lines
      const std::string line = error.what();
      fail(error.fault(), start, line.substr(line.find(": ")));
    }
  });
}

}  // namespace nixie
