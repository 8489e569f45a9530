// `benchmark nets`: nervanagpu's table of convnet-benchmarks' nets, every row checked; `trainer benchmark` prints the
// same table for a configuration.
#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/net_times.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie::benchmark {
namespace {

void run(const NetChoice& choice) {
  Report report(choice.config.empty() ? "nets" : choice.config.string(), choice.files);
  const std::vector<Net> nets = wanted_nets(choice);
  const std::shared_ptr<Backend> backend = open_backend(choice);
  const std::vector<PrecisionTraits> precisions = wanted_precisions(choice, *backend);
  report.begin(*backend, choice.machine.threads);
  RowByRow each;
  for (const PrecisionTraits& precision : precisions) {
    const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
    tell("\n{}: the fastest matrix product of this device runs at {:.2f} TFLOP/s\n", precision.name, ceiling);
    for (const Net& net : nets)
      each.make([&] {
        report.add_row(time_net(*backend, net, batch_of(choice, net, *backend), precision, choice.runs, ceiling));
        tell("{}", nervana_text(report.rows().back()));
        std::fflush(stdout);
      });
  }
  tell("\n{}", table_text(kNetColumns, report.rows()));
  report.complete();
  each.raise();
}

}  // namespace

Subcommand add_nets(CLI::App& app) {
  const auto choice = std::make_shared<NetChoice>();
  CLI::App* nets = add_command(app, "nets", "fprop, bprop and training step of convnet-benchmarks' nets, checked");
  add_net_options(*nets, *choice);
  add_flag(*nets, "--nervana", choice->nervana,
           "nervanagpu's variant: no biases, ReLU at the end, hidden layers of 3072", "--config");
  add_flag(*nets, "--bytes", choice->bytes, "images are stored as bytes and normalised where the net reads them");
  return {nets, [choice] { run(*choice); }};
}

}  // namespace nixie::benchmark
