// The trainer's commands besides training, by name; what each is asked for, and what runs it. They print to stdout and
// throw Error. The help of an option says what it is.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "nixie/apps/trainer/commands/chosen_checkpoint.h"
#include "nixie/apps/trainer/rates/rate_sweep.h"
#include "nixie/configs/parse/config.h"

namespace CLI {
class App;
}

namespace nixie {

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

}  // namespace nixie
