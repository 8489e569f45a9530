// The trainer's commands; what each is asked for, and what runs it. They print to stdout and throw Error. The help of
// an option says what it is.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nixie/apps/trainer/rates/rate_sweep.h"
#include "nixie/configs/parse/config.h"

namespace CLI {
class App;
}

namespace nixie {

// ---- which checkpoint (chosen_checkpoint.cpp) ----

/// The checkpoint that a command uses: a file, a run folder's best, or the newest run's best.
struct CheckpointChoice {
  std::filesystem::path file = {};  ///< --checkpoint
  std::filesystem::path run = {};   ///< --run; where neither is given, the newest run in runs/
};

/// The best checkpoint of the run in runs/NAME/N that was saved last.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& runs);

/// The file. Where nothing is named and another run did better, stderr says so. Throws a usage Error without one.
std::filesystem::path chosen_checkpoint(const CheckpointChoice& choice);

/// Names in one line the best run beside that of a checkpoint in runs/NAME/N, by the figure of `best_by`, if it is
/// better, was evaluated on the same data and has a best.h5; else gives "". Skips runs that cannot be read.
std::string better_run_text(const std::filesystem::path& checkpoint);

// ---- the commands by name (command_line.cpp; each is in a file of its own) ----

/// What `trainer --help` lists below its own options.
std::string commands_text();

/// Calls `each` with every command's name and its options as they are declared.
void for_each_command(const std::function<void(const char* name, const CLI::App& app)>& each);

/// The names of all, and of training and the benchmark.
std::vector<std::string> command_names();
/// Whether the first argument names one of them.
bool names_subcommand(const std::vector<std::string>& arguments);
/// Runs it and gives its exit code. Throws Error.
int run_subcommand(const std::vector<std::string>& arguments);

using Assignments = std::vector<std::string>;  ///< of --set
using FilePath = std::filesystem::path;

struct EvalCommand {
  CheckpointChoice checkpoint = {};
  FilePath data = {};  ///< empty: the data of the run
  std::string split = "test";
  bool confusion = false, csv = false;
  Assignments assignments = {};
};
void run_eval(const EvalCommand& command);

struct PredictCommand {
  CheckpointChoice checkpoint = {};
  std::vector<FilePath> pictures = {};
  int top = 5;
  bool csv = false;
  FilePath masks = {};
  bool overwrite = false;  ///< replaces masks that are there
  Assignments assignments = {};
};
/// A picture that cannot be read is named on stderr and left out; the result is then false.
bool run_predict(const PredictCommand& command);

struct ExportCommand {
  CheckpointChoice checkpoint = {};
  FilePath out = {};
  bool fold = false;
  std::string config = {}, data = {};
  Assignments assignments = {};
};
void run_export(const ExportCommand& command);

/// Prints the layers as a table, the parameters, the memory of a training step, and warnings about likely mistakes.
void run_summary(const TrainConfig& config);
/// Prints the summary, then trains one step and evaluates one batch; nothing is written.
void run_dry(const TrainConfig& config);

struct ProfileCommand {
  int steps = 20;
  FilePath trace = {};
};
void run_profile(const TrainConfig& config, const ProfileCommand& command);

struct FindRateCommand {
  RateRange range = {};
  FilePath html = {};
};
/// Nothing but the chart is written.
void run_find_rate(const TrainConfig& config, const FindRateCommand& command);

struct StudyCommand {
  std::string subject = "formats";
  StatisticsOptions statistics = {.every = 1,
                                  .shadow = {"bf16", "f16", "e4m3", "e5m2", "int8", "e3m2", "e2m3", "e2m1"}};
  std::int64_t steps = 50;
  double threshold = 1e-3;
  FilePath out = {}, html = {};
};
/// Trains the configuration from its initial weights, prints the errors of each layer's operands and the formats that
/// it chooses. Nothing but the files of the command is written.
void run_study(const TrainConfig& config, const StudyCommand& command);

struct DataCommand {
  std::string action = {};
  FilePath source = {}, out = {}, config = {};
  std::int64_t side = 0;  ///< 0: what most pictures have, 256 at most
  Assignments assignments = {};
};
/// False where samples are damaged, which are then named.
bool run_data(const DataCommand& command);

struct CheckpointCommand {
  std::string action = {};
  FilePath file = {}, other = {};
};
/// The exit code: 1 where `diff` finds differences.
int run_checkpoint(const CheckpointCommand& command);

struct CompareCommand {
  std::vector<FilePath> runs = {};  ///< their folders
  FilePath html = {};
};
void run_compare(const CompareCommand& command);

/// Checks the parts of this machine that a run uses; false where a run on the CPU would have a problem. A missing GPU
/// is none.
bool run_doctor();

// ---- trainer list (list_command.cpp) ----

/// The text of docs/configuration.md.
std::string reference_text();

/// For a terminal, with the shipped configurations; of one part only, if it is named.
std::string list_text(const std::string& part = {});
/// The names of its parts: `models`, `layers` ...
const std::vector<std::string>& list_parts();

// ---- completion by a shell (completion.cpp) ----

using EachCommand = std::function<void(const std::function<void(const char* name, const CLI::App& app)>&)>;

const std::vector<std::string>& completion_shells();

/// A script for the shell, which asks the program at each completion: `source <(trainer completion bash)`.
std::string completion_script(const std::string& shell);

/// Completions of the last word of a command line: commands, options, their values, keys of --set and
/// theirs. Nothing where only a file fits. The words, beginning with the program's name, are joined by '\x1f'.
/// `commands` are their names, `each_command` calls a function with each and its options.
std::vector<std::string> completions(const std::string& line, const std::vector<std::string>& commands,
                                     const EachCommand& each_command);

// ---- training (train_command.cpp) ----

struct Command {
  std::string program = "trainer";            ///< as it was called
  std::vector<std::string> arguments = {};    ///< as they were given, for the run's log
  std::filesystem::path config = {};          ///< of a new run; one that is resumed goes by its folder's config.yaml
  std::vector<std::string> assignments = {};  ///< of --set
  std::filesystem::path run = {};             ///< empty: runs/NAME/N, by the configuration's name
  bool resume = false;
  std::filesystem::path checkpoint = {};  ///< what to resume, or its folder; empty: the newest valid one of the run
};

/// Trains as the command says and prints to stdout. Returns false where a signal ended the run early. Throws Error.
bool run_command(const Command& command);

/// A BatchTrial of a run: two steps, saves, and evaluations, which are cut short where they take long.
void try_training(const TrainConfig& config, const std::filesystem::path& folder);

struct TrainRequest {
  Command command = {};
  std::string data = {};
  bool lists = false, is_dry = false;
};

/// Declares the options of training, which fill in the request when the app parses.
void add_train_options(CLI::App& app, TrainRequest& request);

}  // namespace nixie
