// `benchmark tune`: measures the algorithms of nets' kernels (docs/cuda.md, Tuning), and the speedup. Compiles each net
// twice, first by estimates, and times both in turn.
#include <cstdlib>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/subjects/net_work.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/registry.h"

namespace nixie::benchmark {
namespace {

/// A net whose plans are all compiled under a value of NIXIE_TUNING.
void compile(const char* tuning, NetWork& work, Backend& backend) {
  setenv("NIXIE_TUNING", tuning, 1);
  work.fprop();
  work.total();
  work.train();
  if (work.has_dynamic()) work.train_dynamic();
  backend.synchronize();
}

std::string medians(Backend& backend, const std::vector<std::function<void()>>& works, int runs) {
  for (const auto& work : works) warm_up(backend, work);
  const auto times = time_in_turn(backend, works, runs);
  return fmt::format("{:.3f} -> {:.3f} ms", summarize(times[0]).median, summarize(times[1]).median);
}

/// Measures for fprop, fprop with bprop and training steps of each net, also what was measured before; each result is
/// printed to stderr and added to the user's table.
void run(const NetChoice& command) {
  const std::shared_ptr<Backend> backend = make_backend("cuda", 0);
  tell("medians of {} runs, by estimates -> by what was measured\n", command.runs);
  for (const PrecisionTraits& precision : wanted_precisions(command, *backend))
    for (const Net& net : wanted_nets(command)) {
      Scope scope(net.name, precision.name);
      const int batch = batch_of(command, net, *backend);
      NetWork before(*backend, net, batch, precision), after(*backend, net, batch, precision);
      compile("off", before, *backend);
      compile("again", after, *backend);
      const std::string total = medians(*backend, {[&] { before.total(); }, [&] { after.total(); }}, command.runs),
                        train = medians(*backend, {[&] { before.train(); }, [&] { after.train(); }}, command.runs);
      tell("{:<10} {:<5} batch {:>4}: fprop + bprop {}, training step {}\n", net.name, precision.name, batch, total,
           train);
      std::fflush(stdout);
    }
}

}  // namespace

Subcommand add_tune(CLI::App& app) {
  const auto choice = std::make_shared<NetChoice>();
  CLI::App* tune =
      add_command(app, "tune", "measures the fastest algorithm of each kernel of the nets, for later runs");
  add_net_or_config(*tune, *choice);
  add_precisions(*tune, choice->precisions, "by default fp16,fp32");
  add_batch(*tune, choice->batch);
  add_runs(*tune, choice->runs, "timed runs, 10 by default");
  return {tune, [choice] { run(*choice); }};
}

}  // namespace nixie::benchmark
