// The trainer's command line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nixie {

struct Command {
  std::string program = "trainer";            ///< as it was called
  std::filesystem::path config = {};          ///< of a new run; one that is resumed goes by its folder's config.yaml
  std::vector<std::string> assignments = {};  ///< of --set
  std::filesystem::path run = {};             ///< empty: runs/<config name>/<n>
  bool resume = false;
  std::filesystem::path checkpoint = {};  ///< what to resume; empty: the newest valid one of the run folder
};

/// Trains as the command says and prints to stdout. Returns false where a signal ended the run early. Throws Error.
bool run_command(const Command& command);

/// `to change the configuration write --set epochs=3` where an argument is one of its keys, as in `--epochs 3`; else
/// "".
std::string set_hint(const std::vector<std::string>& arguments);

/// Everything a configuration can name, with fields, defaults and meaning.
std::string list_text();

}  // namespace nixie
