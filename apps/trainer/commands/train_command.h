// Training by a command line: its options, and a run from its beginning, or from where it stopped, to its end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nixie/configs/parse/config.h"

namespace CLI {
class App;
}

namespace nixie {

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
