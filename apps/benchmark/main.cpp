// benchmark: times what nixie does and checks every result that it times. Exit codes: see Fault in core/error.h.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/benchmark/nets.h"
#include "apps/benchmark/steps.h"
#include "core/error.h"

namespace {

using nixie::benchmark::StepsCommand;

int fail(nixie::Fault fault, const char* line) {
  std::fprintf(stderr, "benchmark: %s\n", line);
  return static_cast<int>(fault);
}

void add_steps(CLI::App& app, StepsCommand& command) {
  std::vector<std::string> names;
  for (const auto& net : nixie::benchmark::step_nets()) names.push_back(net.name);
  constexpr int kMost = 1 << 20;
  CLI::App* steps = app.add_subcommand("steps", "whole training steps: forward, cross entropy, backward, SGD");
  steps->add_option("--net", command.nets, "which nets, separated by commas; all by default")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  steps->add_option("--backend", command.backend, "by default a GPU where there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  steps->add_option("--threads", command.threads, "of the CPU; all by default")->check(CLI::Range(1, 1024));
  steps->add_option("--batch", command.batch, "images of a step; each net's own by default")
      ->check(CLI::Range(1, kMost));
  steps->add_option("--runs", command.runs, "timed steps; by default as many as fill two seconds, 20 to 200")
      ->check(CLI::Range(1, kMost));
  steps->add_option("--rate", command.rate, "learning rate, 0.01 by default");
  steps->add_option("--json", command.json, "a file that the table is written to as well");
}

int run(const StepsCommand& command) {
  try {
    nixie::benchmark::run_steps(command);
    return 0;
  } catch (const nixie::Error& error) {
    return fail(error.fault(), error.what());
  } catch (const std::exception& error) {
    return fail(nixie::Fault::usage, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  StepsCommand command;
  CLI::App app("Times what nixie does and checks every result that it times.", "benchmark");
  app.footer("`benchmark` alone, or with options only, is `benchmark steps`.");
  add_steps(app, command);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool asks_for_help = !arguments.empty() && (arguments[0] == "-h" || arguments[0] == "--help");
  if ((arguments.empty() || arguments[0].rfind('-', 0) == 0) && !asks_for_help)
    arguments.insert(arguments.begin(), "steps");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : fail(nixie::Fault::usage, error.what());
  }
  return run(command);
}
