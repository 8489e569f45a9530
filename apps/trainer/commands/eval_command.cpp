// The checkpoint's configuration, its data perhaps elsewhere.
#include "nixie/apps/trainer/commands/command_line.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "nixie/apps/trainer/commands/as_trained.h"
#include "nixie/apps/trainer/commands/data_folder.h"
#include "nixie/apps/trainer/evaluator.h"
#include "nixie/apps/trainer/objective.h"
#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/program/csv_cell.h"
#include "nixie/apps/trainer/program/machine.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/backends/registry.h"
#include "nixie/core/base/one_line.h"

namespace nixie {
namespace {

/// A row for each class of the samples with the share that is right; of many classes the pairs most often confused.
std::string confusion_text(const std::vector<Prediction>& predictions, const Dataset& data) {
  constexpr std::size_t kMostClasses = 30, kMostPairs = 30;
  const Confusions pairs = confusions_of(predictions);
  const auto name = [&](std::int32_t c) { return one_line(class_name(data, c)); };
  std::set<std::int32_t> classes;
  for (const auto& [pair, count] : pairs) classes.insert({pair.first, pair.second});
  if (classes.size() > kMostClasses) {
    std::string text = fmt::format("{:>8}  class, taken for\n", "samples");
    for (const auto& [pair, count] : most_confused(pairs, kMostPairs))
      text += fmt::format("{:8}  {}, {}\n", count, name(pair.first), name(pair.second));
    return text;
  }
  std::size_t first = std::string_view("class").size();
  for (const std::int32_t c : classes) first = std::max(first, name(c).size());
  const auto width = [&](std::int32_t c) { return std::max<std::size_t>(5, name(c).size()); };
  std::string text = fmt::format("{:{}}", "class", first);
  for (const std::int32_t c : classes) text += fmt::format(" {:>{}}", name(c), width(c));
  text += fmt::format(" {:>7}\n", "right");
  for (const std::int32_t label : classes) {
    std::int64_t all = 0;
    std::string row;
    for (const std::int32_t predicted : classes) {
      const auto found = pairs.find({label, predicted});
      const std::int64_t count = found == pairs.end() ? 0 : found->second;
      all += count;
      row += fmt::format(" {:{}}", count, width(predicted));
    }
    if (all == 0) continue;  // no sample of it
    const auto right = pairs.find({label, label});
    const double share = right == pairs.end() ? 0 : static_cast<double>(right->second) / static_cast<double>(all);
    text += fmt::format("{:{}}{} {:7.4f}\n", name(label), first, row, share);
  }
  return "rows: what the samples are; columns: what the model says\n" + text;
}

/// A row for each sample, in the data's order.
void print_samples(const Dataset& data, const std::vector<Prediction>& predictions) {
  tell("file,truth,guess,score\n");
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const auto& [label, predicted, score] = predictions[i];
    const std::string place = data.sample_place(static_cast<std::int64_t>(i));
    tell("{},{},{},{:.6g}\n", place.empty() ? std::to_string(i) : csv_path(place), csv_text(class_name(data, label)),
         csv_text(class_name(data, predicted)), score);
  }
}

/// The half that is evaluated, or both.
std::shared_ptr<const Dataset> chosen_part(const Splits& data, const TrainedModel& trained, const std::string& split) {
  const auto seen = [&](const std::shared_ptr<const Dataset>& half) {
    return as_trained(half, trained.preparation, trained.class_names);
  };
  if (split == "train" || (split == "all" && !data.test)) return seen(data.train);
  check(data.test != nullptr, "nothing of the data is held out (holdout: 0); evaluate on other data with --data, or ",
        "on those that it was trained with: --split train");
  return split == "all" ? joined(seen(data.train), seen(data.test)) : seen(data.test);
}

/// The checkpoint with the configuration of the evaluation.
TrainedModel load(const EvalCommand& command, const std::filesystem::path& file) {
  std::vector<std::string> set = command.assignments;
  const std::filesystem::path named = take_source(set), source = named.empty() ? command.data : named;
  TrainedModel trained = load_trained(file, set);
  if (!source.empty()) {
    std::vector<std::string> assignments = data_assignments(trained.config, source);
    if (const std::string key = "data.image_folder."; assignments[0].starts_with(key))
      assignments.push_back(fmt::format("{}upright={}", key, trained.preparation.upright));
    assignments.insert(assignments.end(), set.begin(), set.end());
    trained.config = with_assignments(trained.config, "--data", assignments);
  }
  return trained;
}

/// `stop` ends it after a batch, and nothing is printed of the result.
void evaluate(const EvalCommand& command, const std::filesystem::path& file, const TrainedModel& trained,
              const std::function<bool()>& stop = {}) {
  const TrainConfig& config = trained.config;
  const Splits data = config.data.open();
  const std::string part = command.split == "all" ? "both halves" : "the " + command.split + " half";
  const std::shared_ptr<const Dataset> half = chosen_part(data, trained, command.split);
  check(half->sample_shape() == trained.model.input_shape(), "the data's samples are ", half->sample_shape(),
        ", the model was trained with ", trained.model.input_shape(), "; set the data's size");
  check(!command.confusion || half->target().is_class(), "the data's targets are ", to_string(half->target()),
        ", so no class is taken for another; leave --confusion out");
  check(!command.csv || half->target().is_class(), "the data's targets are ", to_string(half->target()),
        ", so samples have no classes; leave --csv out");
  const auto say = [&](const std::string& text) {  // apart from a table
    command.csv ? fmt::print(stderr, "{}", printable(text)) : tell_text(text);
  };
  const auto backend = make_backend(config.backend, config.threads);
  say(fmt::format("{}\nmodel {} of {}, after step {}\ndata {}: {} samples, {}\n",
                  machine_text(*backend, config.threads), config.model.kind(), file.string(), trained.step,
                  config.data.kind(), half->size(), part));
  for (const std::string& note : data.notes) say(fmt::format("data: {}\n", note));
  std::optional<Evaluation> evaluated;
  Evaluator evaluator(*backend, trained.model, config, half, loader_options(config), part);
  evaluator.store_variables();
  within_batch(config, [&] { evaluated = evaluator.run(stop); });
  if (!evaluated) return;
  const Evaluation& result = *evaluated;
  if (command.csv) print_samples(*half, result.predictions);
  if (command.confusion) say(confusion_text(result.predictions, *half));
  for (const auto& [name, value] : result.metrics) say(fmt::format("{} {} {:.4f}\n", command.split, name, value));
  say(to_string(result, command.split) + "\n");
  if (!std::isfinite(result.loss))
    fail(Fault::non_finite, "the loss is not finite", result.non_finite.text(), "; ",
         result.non_finite.remedy.empty() ? "take another checkpoint" : result.non_finite.remedy);
}

}  // namespace

void run_eval(const EvalCommand& command) {
  const std::filesystem::path file = chosen_checkpoint(command.checkpoint);
  TrainConfig config;
  const auto work = [&] {
    const TrainedModel trained = load(command, file);
    config = trained.config;
    evaluate(command, file, trained);
  };
  with_batch_advice(config, work, [&](const TrainConfig& smaller, const std::filesystem::path&) {
    TrainedModel trained = load(command, file);
    trained.config = smaller;
    evaluate(command, file, trained, [] { return true; });
  });
}

}  // namespace nixie
