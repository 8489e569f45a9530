// Looks words up in the table of other programs' commands, then among the commands, then on the disk.
#include "nixie/apps/trainer/program/command_hint.h"

#include <algorithm>
#include <filesystem>

#include "nixie/apps/trainer/program/other_options.h"
#include "nixie/configs/parse/suggestion.h"
#include "nixie/configs/parse/words/tables.h"
#include "nixie/core/base/one_line.h"
#include "nixie/data/preparation.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// ``; the command is `trainer train` `` for `fit`, `; write trainer --resume runs/a` for `resume` before `runs/a`,
/// `; there is no server; ...` for `serve`; "" for a word that is no command anywhere.
std::string other_command(const std::vector<std::string>& commands, const std::string& word, const std::string& next,
                          bool may_be_absent) {
  OtherWord meant{.word = word, .known_word = word, .text = {}};
  const auto row = std::ranges::find(other_commands(), word, &OtherWord::word);
  if (row != other_commands().end())
    meant = *row;
  else if (std::ranges::find(commands, word) == commands.end())
    return {};
  if (meant.known_word == "*") return may_be_absent ? "; " + meant.text : "";
  return meant.known_word.starts_with("--") ? fmt::format("; write trainer {} {}", meant.known_word, shell_word(next))
                                            : fmt::format("; the command is `trainer {}`", meant.known_word);
}

}  // namespace

std::string command_hint(const CLI::App& app, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& commands) {
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--") || app.get_option_no_throw(argument)) continue;
    if (const std::string command = other_command(commands, argument.substr(2), "RUN", false); !command.empty())
      return command;
  }
  if (arguments.empty() || arguments[0].starts_with("-")) return {};
  const std::string& word = arguments[0];
  const std::string command = other_command(commands, word, arguments.size() > 1 ? arguments[1] : "RUN", true);
  if (!command.empty()) return command;
  if (word == "launch" || word == "torchrun") return kOneDevice;
  const std::string near = did_you_mean(word, commands);
  std::error_code ignored;
  if (!near.empty() || !fs::exists(word, ignored)) return near;
  return fmt::format("; write {} {}", is_picture_name(word) ? "trainer predict" : "--config FILE --data",
                     shell_word(word));
}

}  // namespace nixie
