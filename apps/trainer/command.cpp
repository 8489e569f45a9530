// From a command to a Trainer in its run folder.
#include "nixie/apps/trainer/command.h"

#include "nixie/apps/trainer/run_folder.h"
#include "nixie/apps/trainer/trainer.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRuns = "runs";

/// Where the run to go on with is: --run, the checkpoint's folder, or the newest of the configuration's.
fs::path resumed_folder(const Command& command) {
  if (!command.run.empty()) return command.run;
  if (!command.checkpoint.empty()) return command.checkpoint.has_parent_path() ? command.checkpoint.parent_path() : ".";
  check(!command.config.empty(), "nothing says which run to resume; add --run DIR, --config FILE or a checkpoint");
  return newest_run_folder(kRuns, command.config.stem());
}

fs::path new_folder(const Command& command) {
  if (command.run.empty()) return make_run_folder(kRuns, command.config.stem());
  claim_run_folder(command.run);
  return command.run;
}

void resume(Trainer& trainer, const Command& command, const fs::path& folder) {
  check(fs::is_directory(folder), folder.string(), " is no folder, so there is no run to resume");
  if (command.checkpoint.empty())
    trainer.resume();
  else
    trainer.resume(command.checkpoint);
}

void print_result(const Evaluation& result, const fs::path& folder) {
  for (const auto& [name, value] : result.metrics) fmt::print("test {} {:.4f}\n", name, value);
  fmt::print("the run is in {}\n{}\n", folder.string(), to_string(result));
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

}  // namespace

bool run_command(const Command& command, const std::function<bool()>& stop) {
  const bool resumes = command.resume;
  fs::path folder = resumes ? resumed_folder(command) : fs::path{};
  check(resumes || !command.config.empty(), "nothing says what to train; add --config FILE");
  const fs::path file = command.config.empty() ? folder / "config.yaml" : command.config;
  const TrainConfig config = load_config(file, command.assignments);
  // The folder is known, and made, only when everything else has been found good.
  Trainer trainer(config, {.out = stdout});
  fmt::print("{}\n", trainer.summary());
  if (!resumes) folder = new_folder(command);
  trainer.use_folder(folder);
  if (resumes) resume(trainer, command, folder);
  const bool is_done = trainer.train(stop);
  if (is_done)
    print_result(trainer.evaluate(), folder);
  else
    fmt::print("stopped after step {}; go on with: trainer --config {} --run {} --resume\n", trainer.step(),
               file.string(), folder.string());
  return is_done;
}

std::string list_text() {
  return "configuration\n" + described<TrainConfig>() + described_list<AllModels>("models") +
         described_list<AllLayers>("layers") + described_list<AllLosses>("losses") +
         described_list<AllMetrics>("metrics") + described_list<AllOptimizers>("optimizers") +
         described_list<AllSchedules>("schedules") + described_list<AllDatasets>("data");
}

}  // namespace nixie
