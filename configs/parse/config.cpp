// From YAML to TrainConfig and back. What a key means stands beside its field: config.h for those at the top, fields()
// of layers/*.h, data/*.h and optimizers/*.h for the others.
#include "nixie/configs/parse/config.h"

#include <algorithm>
#include <limits>

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
  const Tree* found = tree.find(key);
  if (!found || found->is_null()) problems.add(tree.place, "the key ", key, " is missing");
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
  return at_key(config.places, "model", [&] {
    const Model model(config.model, input, config.seed, parameters);
    return config.mirror_average ? model.with_mirror_average() : model;
  });
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

TrainConfig read_config(const Tree& tree) {
  TrainConfig config;
  Problems problems;
  read(tree, config, problems);
  for (const char* key : {"model", "data"}) check_present(tree, key, problems);
  check_word(tree, "precision", config.precision, precision_names(), problems);
  config.places = Places(tree);
  if (const Tree* ema = tree.find("ema"); ema && config.ema <= 1 && static_cast<float>(config.ema) == 1)
    problems.add(ema->place, "ema is ", ema->text,
                 ", with which the average never changes, expected a number below 1 in f32");
  std::vector<std::string> figures = {"accuracy", "loss"};
  for (const AnyMetric& metric : config.metrics) figures.push_back(metric.kind());
  check_word(tree, "best_by", config.best_by, figures, problems);
  if (!tree.find("epochs") && !tree.find("steps"))
    problems.add(tree.place, "the length of the run is missing, expected epochs or steps");
  else if (problems.empty() && config.epochs == 0 && config.steps == 0)
    problems.add(tree.place, "epochs and steps are both 0, expected one of them to say how long the run is");
  if (config.noise_scale && config.accumulate < 2)
    problems.add(tree.find("noise_scale")->place,
                 "noise_scale compares the gradients of a step's batches, but accumulate is ", config.accumulate,
                 ", expected 2 or more");
  problems.raise();
  if (const Tree* file = tree.find("init_from"); file && !config.init_from.empty())
    config.init_from = resolved_path(config.init_from, file->place).string();
  return config;
}

std::filesystem::path found_config(const std::filesystem::path& file, const std::filesystem::path& program) {
  std::error_code ignored;
  if (file.is_absolute() || std::filesystem::exists(file, ignored)) return file;
  const std::filesystem::path prefix = program.parent_path().parent_path(), build = prefix.parent_path();
  std::vector<std::filesystem::path> places = {prefix / "share/nixie"};
  if (build.filename() == "build") places.push_back(build.parent_path());  // build/release/bin of the sources
  for (const std::filesystem::path& place : places)
    if (std::filesystem::is_regular_file(place / file, ignored)) return place / file;
  return file;
}

TrainConfig load_config(const std::filesystem::path& file, const std::vector<std::string>& assignments) {
  std::error_code ignored;
  return read_changed(load_yaml(found_config(file, std::filesystem::read_symlink("/proc/self/exe", ignored))),
                      assignments);
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
  return print_yaml(parse_yaml(fields_text(config), "the configuration with every default"));
}

}  // namespace nixie
