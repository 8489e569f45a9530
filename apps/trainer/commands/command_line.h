// The trainer's commands besides training, by name.
#pragma once

#include <string>
#include <vector>

namespace nixie {

/// What `trainer --help` lists below its own options.
std::string commands_text();

/// Whether the first argument names one of them.
bool names_subcommand(const std::vector<std::string>& arguments);
/// Runs it and gives its exit code. Throws Error.
int run_subcommand(const std::vector<std::string>& arguments);

}  // namespace nixie
