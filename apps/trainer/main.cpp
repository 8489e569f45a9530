// trainer: trains what a YAML file describes. The exit code says what went wrong, see Fault in core/base/error.h.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/trainer/commands/arguments.h"
#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/apps/trainer/commands/data_folder.h"
#include "nixie/apps/trainer/commands/summary_command.h"
#include "nixie/apps/trainer/commands/train_options.h"
#include "nixie/apps/trainer/signals.h"
#include "nixie/core/base/error.h"
#include "nixie/core/base/one_line.h"

namespace {

int fail(nixie::Fault fault, const char* line) {
  std::fflush(stdout);  // what was printed before it comes first
  std::fprintf(stderr, "%s\n", line);
  return static_cast<int>(fault);
}

/// Work whose result is what it prints: that must have arrived. A reader that has seen enough (EPIPE) is none of our
/// business.
int print(const std::function<int()>& work) {
  int code = 0, cause = 0;
  try {
    code = work();
  } catch (const std::system_error& error) {  // fmt's
    if (!std::ferror(stdout)) throw;
    cause = error.code().value();
  }
  if (std::fflush(stdout) != 0 && cause == 0) cause = errno;
  if ((cause == 0 && !std::ferror(stdout)) || cause == EPIPE) return code;
  nixie::fail(nixie::Fault::storage, "what was printed is not complete: ", std::strerror(cause ? cause : EIO),
              "; look at where standard output leads");
}

constexpr int kInterrupted = 130;

/// The exit code of what is done, or of the Error that it throws.
int run(const std::function<int()>& work) {
  try {
    return work();
  } catch (const nixie::Error& error) {
    return fail(error.fault(), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(nixie::Fault::storage, nixie::one_line(error.path1().string() + ": " + error.code().message() +
                                                       "; check the path and its permissions")
                                           .c_str());
  } catch (const std::bad_alloc&) {
    return fail(nixie::Fault::memory, "out of memory; set a smaller batch");
  } catch (const std::exception& error) {
    return fail(nixie::Fault::usage, nixie::one_line(error.what()).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  nixie::reserve_standard_descriptors();
  if (argc > 1 && std::string_view(argv[1]) == "benchmark")  // the same as `benchmark nets --config`
    return nixie::benchmark::run_program("trainer benchmark", {argv + 2, argv + argc});
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (nixie::names_subcommand(arguments))
    return run([&] { return print([&] { return nixie::run_subcommand(arguments); }); });
  if (!arguments.empty() && arguments[0] == "train") arguments.erase(arguments.begin());
  nixie::TrainRequest request;
  nixie::Command& command = request.command;
  command.program = argv[0];
  command.arguments = {argv + 1, argv + argc};
  CLI::App app("Trains the network that a YAML file describes. configs/ holds files to copy from.", "trainer");
  app.footer(nixie::commands_text());
  app.set_version_flag("--version", "nixie " NIXIE_VERSION);
  nixie::add_train_options(app, request);
  try {
    nixie::parse_arguments(app, arguments);
  } catch (const CLI::ParseError& error) {
    const int code = run([&] { return print([&] { return app.exit(error); }); });
    std::vector<std::string> options;
    for (const CLI::Option* option : app.get_options())
      options.insert(options.end(), option->get_lnames().begin(), option->get_lnames().end());
    if (code != 0) std::fputs(nixie::argument_hint({argv + 1, argv + argc}, options).c_str(), stderr);
    const bool is_lost = code == static_cast<int>(nixie::Fault::storage);
    return code == 0 || is_lost ? code : static_cast<int>(nixie::Fault::usage);
  }
  if (request.lists) return run([] { return print([] { return std::fputs(nixie::list_text().c_str(), stdout), 0; }); });
  command.resume = app.get_option("--resume")->count() > 0;
  std::signal(SIGXFSZ, SIG_IGN);  // writes past a file size limit then fail with a message
  std::signal(SIGPIPE, SIG_IGN);  // a closed terminal does not end a run
  return run([&] {
    if (request.is_dry || !request.data.empty())
      nixie::check(!command.config.empty(), "--dry-run and --data need --config FILE");
    command.assignments = nixie::with_data(command.config, request.data, command.assignments);
    if (request.is_dry)
      return print([&] {
        const nixie::TrainConfig config = nixie::load_config(command.config, command.assignments);
        return nixie::with_batch_advice(config, [&] { nixie::run_dry(config); }), 0;
      });
    return nixie::run_command(command) ? 0 : kInterrupted;
  });
}
