// The trainer's commands besides training, by name.
#pragma once

#include <functional>
#include <string>
#include <vector>

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

}  // namespace nixie
