// Chooses the subcommand, and runs most of them where there are no arguments.
#include "nixie/apps/benchmark/command_line.h"

#include <chrono>

#include "nixie/apps/trainer/program/arguments.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/launched_world.h"
#include "nixie/core/base/error.h"

namespace nixie::benchmark {
namespace {

/// Each of these in its default size: three minutes on two cores.
/// `steps` is first: it forks, which no open backend survives.
void run_all(const std::vector<Subcommand>& subcommands) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* name : {"steps", "nets", "layers", "gemm", "sweep", "arrays", "data", "scaling"})
    for (const Subcommand& subcommand : subcommands)
      if (subcommand.app->get_name() == name && !stop_is_requested()) subcommand.work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  tell("\nall of it took {:.0f} s\n", took.count());
}

}  // namespace

int run_program(const std::string& program, std::vector<std::string> arguments) {
  std::function<void()> chosen;
  CLI::App app("Times what nixie does and checks every result that it times.", program);
  app.footer("Options without a subcommand are those of `nets`; no arguments at all run `all`.");
  std::vector<Subcommand> subcommands;
  for (const auto add : {add_nets, add_compare, add_arrays, add_gemm, add_layers, add_sweep, add_data, add_numerics,
                         add_ranks, add_scaling, add_steps, add_tune, add_show})
    subcommands.push_back(add(app));
  subcommands.push_back({app.add_subcommand("all", "all of these once"), [&] { run_all(subcommands); }});
  for (const Subcommand& subcommand : subcommands) subcommand.app->callback([&] { chosen = subcommand.work; });
  const bool asks_for_help = !arguments.empty() && (arguments[0] == "-h" || arguments[0] == "--help");
  if (arguments.empty())
    arguments = {"all"};
  else if (arguments[0].rfind('-', 0) == 0 && !asks_for_help)
    arguments.insert(arguments.begin(), "nets");
  const int code = exit_code_of(
      Output::result,
      [&] {
        try {
          parse_arguments(app, arguments);
        } catch (const CLI::ParseError& error) {
          if (error.get_exit_code() == 0) return app.exit(error);
          fail(Fault::usage, error.what());
        }
        chosen();
        return stop_is_requested() ? kInterrupted : 0;
      },
      program + ": ");
  leave_world(code);
  return code;
}

}  // namespace nixie::benchmark
