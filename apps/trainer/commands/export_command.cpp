// The format from the file's suffix.
#include "nixie/apps/trainer/commands/command_line.h"

#include <nlohmann/json.hpp>

#include "nixie/apps/trainer/commands/data_folder.h"
#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/trained_model.h"
#include "nixie/models/io/onnx.h"
#include "nixie/models/io/safetensors.h"
#include "nixie/models/io/weights.h"

namespace nixie {
namespace {

NamedArrays arrays_of(const Model& model) {
  NamedArrays arrays;
  for (const Variable& variable : model.parameters().all()) arrays[variable.name()] = variable.array();
  return arrays;
}

/// Names of classes are those of folders, in any encoding; JSON wants UTF-8.
std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Throws if the file there, if any, is not one that export wrote: no checkpoint that a run goes on from, no data.
void check_replaceable(const std::filesystem::path& out) {
  if (std::error_code ignored; !std::filesystem::exists(out, ignored)) return;
  bool trains = false;
  try {
    load_checkpoint(out, {.accept = [&](const Checkpoint& header) { trains = !header.optimizer_type.empty(); }});
  } catch (const Error& error) {
    if (error.fault() != Fault::checkpoint) throw;
    fail(Fault::usage, out.string(),
         " is no checkpoint of export, so it is not replaced; name another file, or remove it");
  }
  check(!trains, out.string(), " is a run's checkpoint, with the optimizer's state; name another file");
}

/// The facts that a reader of the file needs besides the graph.
std::map<std::string, std::string> metadata_of(const TrainedModel& trained) {
  const Preparation& p = trained.preparation;
  return {{"classes", json_text(trained.class_names)},
          {"short_side", std::to_string(p.short_side)},
          {"mean", json_text(p.mean)},
          {"deviation", json_text(p.deviation)}};
}

}  // namespace

void run_export(const ExportCommand& command) {
  const std::string suffix = command.out.extension().string();
  check(suffix == ".safetensors" || suffix == ".onnx" || suffix == ".h5", command.out.string(),
        suffix.empty() ? " has no ending" : " ends in " + suffix, ", expected .onnx, .safetensors or .h5",
        suffix == ".pth" || suffix == ".pt" ? "; PyTorch reads .safetensors by safetensors.torch.load_file" : "");
  check(suffix == ".onnx" || !command.fold, "--fold is for .onnx: ", suffix, " keeps every parameter");
  check(!command.config.empty() || (command.assignments.empty() && command.data.empty()),
        "--set and --data are for --config FILE");
  check(command.config.empty() || (command.checkpoint.run.empty() && command.checkpoint.file.empty()),
        "--config takes the weights of its init_from, --run and --checkpoint those of a run; give one of them");
  if (suffix == ".h5") check_replaceable(command.out);
  const std::filesystem::path file =
      command.config.empty() ? chosen_checkpoint(command.checkpoint) : std::filesystem::path(command.config);
  const auto load = [&](std::vector<std::string> assignments) {
    if (command.config.empty()) return load_trained(file, assignments);
    assignments.insert(assignments.begin(), command.assignments.begin(), command.assignments.end());
    return model_from_weights(load_config(file, with_data(file, command.data, assignments)));
  };
  const std::vector<std::string> exact = {"precision=fp32"};
  TrainedModel trained = load(command.config.empty() ? exact : std::vector<std::string>{});
  if (suffix == ".onnx" && !trained.config.formats.empty()) {
    trained = load({exact[0], "formats=[]"});
    tell("{}: its operands and sums are not rounded to the run's formats, which ONNX has not\n", command.out);
  }
  check_output(command.out, FilesInUse({file, trained.config.init_from}));
  if (suffix == ".onnx")
    save_onnx(trained.model, command.out, {.fold_batch_norm = command.fold, .metadata = metadata_of(trained)});
  else if (suffix == ".h5")
    save_checkpoint(inference_checkpoint(trained), command.out);
  else
    save_safetensors({.arrays = arrays_of(trained.model), .metadata = {{"format", "pt"}}}, command.out);
  tell("{}: model {} of {}, {} arrays\n", command.out, trained.config.model.kind(), file,
       trained.model.parameters().all().size());
}

}  // namespace nixie
