// `benchmark steps`: whole training steps (forward, cross entropy, backward, SGD with momentum) of small nets, timed.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/net_work.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/machine.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/program/subprocess.h"
#include "nixie/backends/registry.h"

namespace nixie::benchmark {
namespace {

struct Steps : Common {
  Steps() { runs = 0; }                ///< of steps that are timed: as many as fill two seconds, 20 to 200
  std::vector<std::string> nets = {};  ///< of step_nets(); empty: all
  int batch = 0;                       ///< 0 = each net's own
  double rate = 0.01;                  ///< of SGD, whose momentum is 0.9
};

// MB: 1e6 bytes of the process, at most, and before it made the net. All steps see the same random batch.
const Columns kColumns{{"net", -10, "net"},
                       {"batch", 5, "batch"},
                       {"parameters", 11, "parameters"},
                       {"runs", 5, "runs"},
                       {"median ms", 10, "median_ms", "{:.3f}"},
                       {"min ms", 9, "min_ms", "{:.3f}"},
                       {"max ms", 9, "max_ms", "{:.3f}"},
                       {"images/s", 9, "images_per_second", "{:.0f}"},
                       {"peak MB", 8, "peak_mb", "{:.0f}"},
                       {"start MB", 9, "start_mb", "{:.0f}"},
                       {"first loss", 10, "first_loss", "{:.3f}"},
                       {"lowest", 7, "lowest_loss", "{:.3f}"}};

constexpr int kWarmup = 3;

/// As many as fill two seconds: quick steps vary more.
int runs_for(double step_ms) { return std::clamp(static_cast<int>(2000 / step_ms), 20, 200); }

/// Throws Fault::non_finite if a loss is not finite or did not fall.
nlohmann::json time_steps(Net net, const Steps& command) {
  constexpr double kMegabyte = 1e6;
  const int batch = command.batch > 0 ? command.batch : net.batch;
  const double start_mb = static_cast<double>(peak_memory_bytes()) / kMegabyte;
  const std::shared_ptr<Backend> backend = make_backend(command.machine.backend, command.machine.threads);
  net.training = {.rule = Sgd{.momentum = 0.9}, .schedule = ConstantRate{.rate = command.rate}};
  NetWork work(*backend, net, batch, precision_named("fp32"));
  double loss = 0;
  const auto step_ms = [&] {
    const auto start = std::chrono::steady_clock::now();
    const Outputs outputs = work.train();
    backend->synchronize();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    loss = outputs.at("loss").item();
    if (!std::isfinite(loss)) fail(Fault::non_finite, "the loss of a timed step is ", loss, "; try a smaller --rate");
    return taken.count();
  };
  step_ms();  // compiles the plan
  const double first_loss = loss;
  double warm_ms = 0, lowest_loss = first_loss;
  for (int i = 0; i < kWarmup; ++i) warm_ms = step_ms();
  std::vector<double> times(static_cast<std::size_t>(command.runs > 0 ? command.runs : runs_for(warm_ms)));
  for (double& time : times) {
    time = step_ms();
    lowest_loss = std::min(lowest_loss, loss);
  }
  const Timing timing = summarize(times);
  // Not the last: at a rate that jumps about, it depends on how many steps the time allowed.
  if (lowest_loss >= first_loss)
    fail(Fault::non_finite, "the loss never fell below its first value, ", first_loss, ", in ", timing.runs + kWarmup,
         " steps on one batch, so the steps that were timed do not train; try another --rate");
  return {{"net", net.name},
          {"batch", batch},
          {"parameters", work.parameters()},
          {"runs", timing.runs},
          {"median_ms", timing.median},
          {"min_ms", timing.min},
          {"max_ms", timing.max},
          {"images_per_second", batch / timing.median * 1e3},
          {"peak_mb", static_cast<double>(peak_memory_bytes()) / kMegabyte},
          {"start_mb", start_mb},
          {"first_loss", first_loss},
          {"lowest_loss", lowest_loss}};
}

bool is_wanted(const Net& net, const Steps& command) {
  return command.nets.empty() || std::count(command.nets.begin(), command.nets.end(), net.name) != 0;
}

void run(const Steps& command) {
  Report report("steps", command.files);
  const Machine& wanted = command.machine;
  // Asked of a child: this process must stay without threads and devices to be forked.
  const std::string machine =
      run_apart("backend", [&] { return machine_text(*make_backend(wanted.backend, wanted.threads), wanted.threads); });
  report.set("program", machine);
  tell("{}, {}\n", processor_text(), machine);
  report.print_header(kColumns);
  for (const Net& net : step_nets())
    if (is_wanted(net, command))
      report.add_row(nlohmann::json::parse(run_apart(net.name, [&] { return time_steps(net, command).dump(); })));
}

}  // namespace

Subcommand add_steps(CLI::App& app) {
  const auto command = std::make_shared<Steps>();
  CLI::App* steps = add_command(app, "steps", "whole training steps of small nets, each in its own process");
  add_names(*steps, "--net", command->nets, names_of(step_nets()), "which nets, separated by commas; all by default");
  add_machine(*steps, command->machine);
  add_batch(*steps, command->batch, "images of a step; each net's own by default");
  add_runs(*steps, command->runs, "timed steps; by default as many as fill two seconds, 20 to 200");
  add_value(*steps, "--rate", command->rate, "learning rate, 0.01 by default");
  add_files(*steps, command->files, false, false);
  return {steps, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
