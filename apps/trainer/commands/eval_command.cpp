// The checkpoint's configuration, its data perhaps elsewhere.
#include "nixie/apps/trainer/commands/eval_command.h"

#include "nixie/apps/trainer/commands/data_folder.h"
#include "nixie/apps/trainer/evaluator.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/trained_model.h"

namespace nixie {
namespace {

/// The labels of other data mean other classes, unless the names agree.
void check_same_classes(const TrainedModel& trained, const Dataset& data) {
  const std::vector<std::string>&names = trained.class_names, &found = data.class_names();
  if (names.empty() || names == found) return;
  const std::size_t shared = std::min(names.size(), found.size());
  const auto differ = std::mismatch(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shared), found.begin());
  const auto at = static_cast<std::size_t>(differ.first - names.begin());
  const auto name = [&](const std::vector<std::string>& list) { return at < list.size() ? list[at] : "none"; };
  fail(Fault::data, "class ", at, " of the data is ", name(found), ", the model was trained with ", name(names), " (",
       found.size(), " and ", names.size(), " classes); give it data with the same classes");
}

}  // namespace

void run_eval(const EvalCommand& command) {
  const std::filesystem::path file = chosen_checkpoint(command.checkpoint);
  TrainedModel trained = load_trained(file, command.assignments);
  if (!command.data.empty()) {
    std::vector<std::string> assignments = data_assignments(trained.config, command.data);
    assignments.insert(assignments.end(), command.assignments.begin(), command.assignments.end());
    trained.config = with_assignments(trained.config, "--data", assignments);
  }
  const TrainConfig& config = trained.config;
  const Splits data = config.data.open();
  const auto& half = command.split == "train" ? data.train : data.test;
  check_same_classes(trained, *half);
  check(half->sample_shape() == trained.model.input_shape(), "the data's samples are ", half->sample_shape(),
        ", the model was trained with ", trained.model.input_shape(), "; set the data's size");
  const auto backend = open_backend(config.backend, config.threads);
  LoaderOptions options = config.loader;
  options.batch = config.data.batch();
  tell("{}\nmodel {} of {}, after step {}\ndata {}: {} samples, the {} half\n", machine_text(*backend, config.threads),
       config.model.kind(), file, trained.step, config.data.kind(), half->size(), command.split);
  const Evaluation result = *Evaluator(*backend, trained.model, config, half, options).run();
  for (const auto& [name, value] : result.metrics) tell("{} {} {:.4f}\n", command.split, name, value);
  tell("{}\n", to_string(result, command.split));
}

}  // namespace nixie
