// One function per subcommand declares its options and gives what runs it.
#include "apps/benchmark/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "apps/benchmark/compare_command.h"
#include "apps/benchmark/nets.h"
#include "apps/benchmark/nets_command.h"
#include "apps/benchmark/steps.h"
#include "core/error.h"

namespace nixie::benchmark {
namespace {

constexpr int kMost = 1 << 20;

std::vector<std::string> names_of(const std::vector<Net>& nets) {
  std::vector<std::string> names;
  for (const Net& net : nets) names.push_back(net.name);
  return names;
}

/// A list separated by commas, of these names.
void add_names(CLI::App& app, const char* flag, std::vector<std::string>& values, const std::vector<std::string>& names,
               const char* doc) {
  app.add_option(flag, values, doc)->delimiter(',')->check(CLI::IsMember(names));
}

template <class Command>
void add_machine(CLI::App& app, Command& command) {
  app.add_option("--backend", command.backend, "by default a GPU where there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  app.add_option("--threads", command.threads, "of the CPU; all by default")->check(CLI::Range(1, 1024));
}

template <class Command>
void add_files(CLI::App& app, Command& command) {
  app.add_option("--json", command.json, "a file that the table is written to as well");
  app.add_option("--csv", command.csv, "the same as comma-separated values");
  app.add_option("--plot", command.plot, "the same as a chart, SVG");
}

void add_steps(CLI::App& app, StepsCommand& command, std::function<void()>& chosen) {
  CLI::App* steps = app.add_subcommand("steps", "whole training steps of small nets, each in a process of its own");
  add_names(*steps, "--net", command.nets, names_of(step_nets()), "which nets, separated by commas; all by default");
  add_machine(*steps, command);
  steps->add_option("--batch", command.batch, "images of a step; each net's own by default")
      ->check(CLI::Range(1, kMost));
  steps->add_option("--runs", command.runs, "timed steps; by default as many as fill two seconds, 20 to 200")
      ->check(CLI::Range(1, kMost));
  steps->add_option("--rate", command.rate, "learning rate, 0.01 by default");
  steps->add_option("--json", command.json, "a file that the table is written to as well");
  steps->callback([&] { chosen = [&] { run_steps(command); }; });
}

void add_net_options(CLI::App& app, NetsCommand& command) {
  app.add_option("--net", command.nets, "alexnet, overfeat and vgg_a by default; or vgg_e, googlenet")
      ->delimiter(',')
      ->check(CLI::IsMember(names_of(conv_nets(false))));
  add_names(app, "--precision", command.precisions, precision_names(), "by default fp16,fp32 on a GPU, fp32 on a CPU");
  add_machine(app, command);
  app.add_option("--batch", command.batch, "images; each net's own by default")->check(CLI::Range(1, kMost));
  app.add_option("--runs", command.runs, "timed runs, 10 by default")->check(CLI::Range(1, kMost));
  add_files(app, command);
}

void add_nets(CLI::App& app, NetsCommand& command, std::function<void()>& chosen) {
  CLI::App* nets = app.add_subcommand("nets", "fprop, bprop and training step of convnet-benchmarks' nets, checked");
  add_net_options(*nets, command);
  CLI::Option* config = nets->add_option("--config", command.config, "the net, batch and optimizer of a configuration")
                            ->excludes(nets->get_option("--net"));
  nets->add_option("--set", command.assignments, "key.path=value: changes the configuration; may be repeated")
      ->take_all()
      ->allow_extra_args(false)
      ->needs(config);
  nets->add_flag("--nervana", command.nervana,
                 "nervanagpu's variant: no biases, ReLU at the end, hidden layers of 3072")
      ->excludes(config);
  nets->callback([&] { chosen = [&] { run_nets(command); }; });
}

void add_compare(CLI::App& app, CompareCommand& command, std::function<void()>& chosen) {
  CLI::App* compare = app.add_subcommand("compare", "the nets here and in PyTorch and JAX, in turn, with the ratios");
  add_net_options(*compare, command);
  compare->add_option("--peers", command.peers, "the folder of the peers' programs, apps/peers by default");
  compare->add_option("--python", command.python, "what runs them, python3 by default");
  add_names(*compare, "--engine", command.engines, {"eager", "graph", "compile", "max-autotune", "jit"},
            "the peers' ways to run a net; all but max-autotune by default");
  compare->callback([&] { chosen = [&] { run_compare(command); }; });
}

int fail_with(const std::string& program, Fault fault, const char* line) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), line);
  return static_cast<int>(fault);
}

}  // namespace

int run_program(const std::string& program, std::vector<std::string> arguments) {
  StepsCommand steps;
  NetsCommand nets;
  CompareCommand compare;
  std::function<void()> chosen;
  CLI::App app("Times what nixie does and checks every result that it times.", program);
  app.footer("Options without a subcommand are those of `nets`.");
  add_nets(app, nets, chosen);
  add_compare(app, compare, chosen);
  add_steps(app, steps, chosen);
  const bool asks_for_help = !arguments.empty() && (arguments[0] == "-h" || arguments[0] == "--help");
  if ((arguments.empty() || arguments[0].rfind('-', 0) == 0) && !asks_for_help)
    arguments.insert(arguments.begin(), "nets");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  try {
    app.parse(arguments);
    chosen();
    return 0;
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : fail_with(program, Fault::usage, error.what());
  } catch (const Error& error) {
    return fail_with(program, error.fault(), error.what());
  } catch (const std::bad_alloc&) {
    return fail_with(program, Fault::memory, "out of memory; set a smaller --batch");
  } catch (const std::exception& error) {
    return fail_with(program, Fault::usage, error.what());
  }
}

}  // namespace nixie::benchmark
