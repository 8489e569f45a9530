// The advice about words that are no command: other programs' commands, the nearest one, files.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace nixie {

/// The advice about a word that is no command, or an option that is one: `; the command is `trainer eval``
/// for `--eval`, the nearest of `commands`, or the option for a file alone; "" where nothing is known.
std::string command_hint(const CLI::App& app, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& commands);

}  // namespace nixie
