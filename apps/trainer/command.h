// The trainer's command line.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace nixie {

struct Command {
  std::filesystem::path config = {};          ///< empty: the run folder's config.yaml, which is then resumed
  std::vector<std::string> assignments = {};  ///< of --set
  std::filesystem::path run = {};             ///< empty: runs/<config name>/<n>
  bool resume = false;
  std::filesystem::path checkpoint = {};  ///< what to resume; empty: the newest valid one of the run folder
};

/// Trains as the command says and prints to stdout. Returns false where `stop` ended the run early. Throws Error.
bool run_command(const Command& command, const std::function<bool()>& stop);

/// Everything a configuration can name, with fields, defaults and meaning.
std::string list_text();

}  // namespace nixie
