// The trainer's command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nixie/configs/parse/config.h"

namespace CLI {
class App;  // CLI11 stays out of installed headers: it takes compilers longer than all of them
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

/// The advice about a word that is no command, or an option that is one: `; the command is `trainer eval``
/// for `--eval`, the nearest command, or the option for a file alone; "" where nothing is known.
std::string command_hint(const CLI::App& app, const std::vector<std::string>& arguments);

/// Everything a configuration can name, with fields, defaults and meaning, and the shipped configurations; of one part
/// only, if it is named.
std::string list_text(const std::string& part = {});
/// The names of its parts: `models`, `layers` ...
const std::vector<std::string>& list_parts();

}  // namespace nixie
