// From a command to a Trainer in its run folder.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/apps/trainer/commands/data_folder.h"
#include "nixie/apps/trainer/program/arguments.h"
#include "nixie/apps/trainer/program/batch_advice.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/trainer.h"
#include "nixie/backends/launched_world.h"
#include "nixie/configs/parse/differences.h"
#include "nixie/configs/parse/reader.h"
#include "nixie/core/base/one_line.h"
#include "nixie/core/base/working_folder.h"
#include "nixie/models/io/checkpoint.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRuns = "runs";

/// The advice to a bare `trainer --resume`: the run that was saved last, if there is one.
std::string resume_advice() {
  const auto newest = newest_checkpoint(kRuns);
  if (!newest) return "add a checkpoint, a run's folder or --config FILE";
  return fmt::format("for the one that was saved last write --resume {}", shell_word(newest->parent_path().string()));
}

/// Where the run to go on with is: --run, the checkpoint's folder, or the newest of the configuration's.
fs::path resumed_folder(const Command& command) {
  if (!command.run.empty()) return command.run;
  if (!command.checkpoint.empty()) return command.checkpoint.has_parent_path() ? command.checkpoint.parent_path() : ".";
  check(!command.config.empty(), "nothing says which run to resume; ", resume_advice());
  return newest_run_folder(kRuns, command.config.stem());
}

/// `--resume DIR` is `--run DIR --resume`.
Command with_run_folder(Command command) {
  if (command.checkpoint.empty() || !fs::is_directory(command.checkpoint)) return command;
  check(command.run.empty(), "--resume and --run each name a run's folder, expected one of them");
  command.run = std::exchange(command.checkpoint, fs::path());
  return command;
}

fs::path new_folder(const Command& command) {
  if (command.run.empty()) return make_run_folder(kRuns, command.config.stem());
  claim_run_folder(command.run);
  return command.run;
}

/// Where a resumed run reads: its folder, and the checkpoint that it begins with where one is named.
struct Resumed {
  Folder folder;
  std::optional<FilePlace> checkpoint;

  FilePlace config() const { return {folder, "config.yaml"}; }
};

/// The run's own configuration, with assignments.
TrainConfig own_config(
    const Resumed& run, const std::vector<std::string>& assignments = {},
    const std::function<void(const std::string&)>& note = [](const std::string&) {}) {
  const auto checkpoints = run.checkpoint ? std::vector{*run.checkpoint} : run_checkpoints(run.folder);
  return as_saved(run.config(), checkpoints, assignments, note);
}

/// The configuration of the run: the file's or, where a run is resumed, that run's own; with the changes of --set.
TrainConfig chosen_config(const Command& command, const std::optional<Resumed>& run) {
  if (run) check_run_files(run->folder);
  const bool has_own = run && fs::exists(run->config().status());
  if (!run || (!has_own && !command.config.empty()))
    return load_config(command.config, with_data(command.config, {}, command.assignments));
  if (!has_own && run->checkpoint) verify_checkpoint(*run->checkpoint);
  check(has_own, run->config().path().string(), " is missing; add --config FILE");
  const std::vector<std::string> assignments = with_source(own_config(*run), command.assignments);
  if (!command.config.empty()) {
    const auto changes = config_differences(config_text(own_config(*run, assignments)),
                                            config_text(load_config(command.config, assignments)));
    if (!changes.empty())
      tell("{} differs from the run's own configuration, which is used ({}); change it with --set\n", command.config,
           fmt::join(changes, "; "));
  }
  return own_config(*run, assignments, [](const std::string& note) { tell("{}\n", note); });
}

/// The top-level keys that --set names.
std::vector<std::string> named_keys(const std::vector<std::string>& assignments) {
  std::vector<std::string> keys;
  for (const std::string& assignment : assignments)
    keys.push_back(assignment.substr(0, assignment.find_first_of(".=")));
  return keys;
}

/// The command as a shell reads it back.
std::string command_text(const Command& command) {
  std::string text = shell_word(command.program);
  for (const std::string& argument : command.arguments) text += " " + shell_word(argument);
  return text;
}

std::string result_text(const Evaluation& result, const fs::path& folder) {
  std::string text;
  for (const auto& [name, value] : result.metrics) text += fmt::format("test {} {:.4f}\n", name, value);
  return text + fmt::format("the run is in {}\n{}", folder, to_string(result));
}

/// The command that goes on with a run, from any folder.
std::string resume_text(const Command& command, const fs::path& folder) {
  const bool is_searched_for = command.program.find('/') == std::string::npos;
  const fs::path program = is_searched_for ? fs::path(command.program) : absolute_path(command.program);
  return fmt::format("{} --run {} --resume", shell_word(program.string()), shell_word(absolute_path(folder).string()));
}

/// Whether the configurations and the data do not go together; throws where data cannot be read.
bool fits_no_longer(const TrainConfig& own, const std::string& line) try {
  Trainer(own, {.reads_init_from = false});
  return false;
} catch (const Error& error) {
  if (error.fault() == Fault::data) own.data.open();
  return (error.fault() == Fault::usage || error.fault() == Fault::data) && error.what() == line;
}

std::unique_ptr<Trainer> make_trainer(const TrainConfig& config, const std::optional<Resumed>& run) try {
  return std::make_unique<Trainer>(config,
                                   TrainerOptions{.out = stdout, .reads_init_from = !run, .world = launched_world()});
} catch (const Error& error) {
  if (!run || !fs::exists(run->config().status()) || !fits_no_longer(own_config(*run), error.what())) throw;
  throw Error(Fault::data, error.what() + std::string("; but the run trained with this configuration, so its data have "
                                                      "changed: mend them, or begin a new run"));
}

bool run(const Command& command, const TrainConfig& config, const std::optional<Resumed>& resumed) {
  // The folder is made only when everything else has been found good.
  const std::unique_ptr<Trainer> made = make_trainer(config, resumed);
  Trainer& trainer = *made;
  trainer.note("nixie " NIXIE_VERSION ": " + command_text(command));
  trainer.say(trainer.summary());
  if (const std::string warnings = trainer.large_arrays_text(); !warnings.empty()) trainer.say(warnings);
  trainer.trace_steps();
  const Folder opened = resumed ? resumed->folder : Folder(new_folder(command));
  const fs::path& folder = opened.path();
  trainer.use_folder(opened);
  trainer.say(fmt::format("the run is in {}; open report.html there after {}", folder,
                          trainer.evaluates() ? "its first evaluation" : "the first epoch"));
  const std::vector<std::string> changes = named_keys(command.assignments);
  if (resumed && !resumed->checkpoint)
    trainer.resume_last(changes);
  else if (resumed)
    trainer.resume(*resumed->checkpoint, changes);
  const std::string to_go_on = resume_text(command, folder);
  listen_to_signals();
  trainer.take_memory();
  bool is_done = false;
  const auto train = [&] { is_done = trainer.train(stop_is_requested, take_save_request); };
  if (launched_world().is_alone())
    within_batch(config, train);
  else
    train();
  if (is_done)
    trainer.say(trainer.evaluates() ? result_text(trainer.evaluate(), folder)
                                    : fmt::format("the run is in {}", folder));
  else
    trainer.say(fmt::format("stopped after step {}; go on with: {}", trainer.step(), to_go_on));
  return is_done;
}

/// The other ranks of a job train with the first one's configuration and state, and write nothing.
bool follow(const TrainConfig& config) {
  Trainer trainer(config, {.reads_init_from = false, .world = launched_world()});
  trainer.trace_steps();
  listen_to_signals();
  trainer.take_memory();
  const bool is_done = trainer.train(stop_is_requested);
  if (is_done && trainer.evaluates()) trainer.evaluate();
  return is_done;
}

bool run_or_follow(const Command& given) {
  const World& world = launched_world();
  if (!world.is_first()) return follow(parse_config(world.from_first({}), "the first rank's configuration"));
  const Command command = with_run_folder(given);
  check(command.resume || !command.config.empty(), "nothing says what to train; add --config FILE");
  std::optional<Resumed> resumed;
  if (command.resume) {
    const fs::path folder = resumed_folder(command);
    check(fs::is_directory(folder), folder.string(), " is no folder, so there is no run to resume");
    resumed = {.folder = folder, .checkpoint = {}};
    if (!command.checkpoint.empty()) resumed->checkpoint = command.checkpoint;
    if (resumed->checkpoint && !fs::is_regular_file(resumed->checkpoint->status()))
      fail(Fault::checkpoint, command.checkpoint.string(),
           " is no file; give the path of a checkpoint or of a run's folder");
  } else if (!command.run.empty()) {
    check_free(command.run);
  }
  const TrainConfig config = chosen_config(command, resumed);
  if (!world.is_alone()) world.from_first(config_text(config));
  bool is_done = false;
  const auto train = [&] { is_done = run(command, config, resumed); };
  if (!world.is_alone())  // trials with smaller batches have no ranks
    train();
  else if (command.resume)
    with_kept_batch(train);
  else
    with_batch_advice(config, train, try_training);
  return is_done;
}

}  // namespace

bool run_command(const Command& given) try { return run_or_follow(given); } catch (const Error& error) {
  const World& world = launched_world();
  if (world.is_alone()) throw;
  // The first one reports what all ranks find.
  if (!world.is_first()) std::this_thread::sleep_for(std::chrono::seconds(2));
  throw Error(error.fault(), world.text() + ": " + error.what());
}

void try_training(const TrainConfig& config, const fs::path& folder) {
  constexpr std::chrono::seconds kEnd(5);  // evaluations are cut short from then on
  Trainer trainer(with_assignments(config, "a trial", {"steps=2", "evaluate_every=1"}), {.run = folder, .out = stdout});
  const auto end = std::chrono::steady_clock::now() + kEnd;
  trainer.train([&] { return trainer.step() > 0 && std::chrono::steady_clock::now() > end; });
}

void add_train_options(CLI::App& app, TrainRequest& request) {
  Command& command = request.command;
  app.add_option("--config", command.config, "the YAML file");
  add_assignments(app, command.assignments);
  app.add_option("--data", request.data,
                 "the data, in place of the file's (as --set data.path=): a folder of pictures per class, a .csv, "
                 ".tar, .npz or .h5 file, or a folder of packed data, MNIST or CIFAR");
  app.add_option("--run", command.run, "folder for the run's files; by default runs/<config name>/<n>");
  app.add_option("--resume", command.checkpoint,
                 "go on from a checkpoint, or from the newest one of a run's folder (this one, --run's, or the "
                 "configuration's last)")
      ->expected(0, 1);
  app.add_flag("--dry-run", request.is_dry, "print the summary, do one step and one evaluation, write nothing");
  app.add_flag("--list", request.lists, "print everything a configuration can name");
}

}  // namespace nixie
