// The command line: the program `benchmark`, `trainer benchmark`, and the subcommands, each of which declares its
// options and columns beside its work, in the file of its name.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nixie::benchmark {

/// Runs the command and returns the exit code (see Fault in core/base/error.h). Errors are one line on
/// stderr, after `PROGRAM: `.
int run_program(const std::string& program, std::vector<std::string> arguments);

/// A subcommand of the app, and what it does with the options that were parsed. The work prints a table and writes its
/// files; it throws Error, Fault::non_finite where a result is wrong.
struct Subcommand {
  CLI::App* app;
  std::function<void()> work;
};

Subcommand add_nets(CLI::App& app);
Subcommand add_compare(CLI::App& app);
Subcommand add_arrays(CLI::App& app);
Subcommand add_gemm(CLI::App& app);
Subcommand add_layers(CLI::App& app);
Subcommand add_sweep(CLI::App& app);
Subcommand add_data(CLI::App& app);
Subcommand add_numerics(CLI::App& app);
Subcommand add_ranks(CLI::App& app);
Subcommand add_scaling(CLI::App& app);
Subcommand add_steps(CLI::App& app);
Subcommand add_tune(CLI::App& app);
Subcommand add_show(CLI::App& app);

}  // namespace nixie::benchmark
