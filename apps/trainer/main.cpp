// trainer: trains what a YAML file describes. The exit code says what went wrong, see Fault in core/base/error.h.
#include <CLI/CLI.hpp>
#include <csignal>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/apps/trainer/commands/data_folder.h"
#include "nixie/apps/trainer/program/arguments.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/launched_world.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/fields.h"

namespace {

[[gnu::constructor(101)]] void before_ops() { nixie::name_want_of_memory(); }

int leave_with(int code) {
  nixie::leave_world(code);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using nixie::exit_code_of, nixie::Output;
  nixie::begin_program();
  if (argc > 1 && std::string_view(argv[1]) == "benchmark")  // the same as `benchmark nets --config`
    return nixie::benchmark::run_program("trainer benchmark", {argv + 2, argv + argc});
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "help") {  // of the program, or of the command behind it
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  if (nixie::names_subcommand(arguments))
    return leave_with(exit_code_of(Output::result, [&] { return nixie::run_subcommand(arguments); }));
  if (!arguments.empty() && arguments[0] == "train") arguments.erase(arguments.begin());
  nixie::TrainRequest request;
  nixie::Command& command = request.command;
  command.program = argv[0];
  command.arguments = {argv + 1, argv + argc};
  CLI::App app(
      "Trains the network that a YAML file describes. Shipped files such as "
      "configs/photos.yaml are found from any folder.",
      "trainer");
  app.footer(nixie::commands_text());
  app.set_version_flag("--version", "nixie " NIXIE_VERSION);
  nixie::add_train_options(app, request);
  try {
    nixie::parse_arguments(app, arguments, [&](const CLI::App& parsed) {
      return nixie::command_hint(parsed, arguments, nixie::command_names());
    });
  } catch (const CLI::ParseError& error) {
    const int code = exit_code_of(Output::result, [&] { return app.exit(error); });
    const bool is_lost = code == static_cast<int>(nixie::Fault::storage);
    return code == 0 || is_lost ? code : static_cast<int>(nixie::Fault::usage);
  }
  if (request.lists) return exit_code_of(Output::result, [] { return nixie::tell_text(nixie::list_text()), 0; });
  command.resume = app.get_option("--resume")->count() > 0;
  std::signal(SIGPIPE, SIG_IGN);  // a closed terminal does not end a run
  return leave_with(exit_code_of(request.is_dry ? Output::result : Output::log, [&] {
    const bool goes_on = command.resume && !request.is_dry, has_data = !request.data.empty();
    nixie::check(goes_on || !(request.is_dry || has_data) || !command.config.empty(),
                 request.is_dry ? "--dry-run" : "--data", " needs --config FILE, such as configs/photos.yaml");
    if (goes_on && has_data)
      command.assignments.push_back("data.path=" + nixie::field_text(request.data));
    else if (!goes_on)
      command.assignments = nixie::with_data(command.config, request.data, command.assignments);
    if (!request.is_dry) return nixie::run_command(command) ? 0 : nixie::kInterrupted;
    const nixie::TrainConfig config = nixie::load_config(command.config, command.assignments);
    return nixie::run_dry(config), 0;
  }));
}
