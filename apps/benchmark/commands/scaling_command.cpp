// Each row is a row of `nets`, of a net made for it.
#include "nixie/apps/benchmark/commands/scaling_command.h"

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/plot.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/profile/ceiling.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/registry.h"

namespace nixie::benchmark {
namespace {

struct Sizes {
  int batch, depth, side;
};

}  // namespace

void run_scaling(const ScalingCommand& command) {
  Report report("scaling", command.json, command.csv);
  check_writable(command.plot);
  const std::shared_ptr<Backend> backend = make_backend(command.backend, command.threads);
  const bool is_cpu = backend->name() == "cpu";
  const PrecisionTraits precision = wanted_precisions(command, *backend)[0];
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
  tell("{}{}\n{:<12} {:>6} {:>6} {:>6} {:>6} {:>11} {:>11} {:>11} {:>9}\n", facts_text(report.content()),
       precision.name, "what grows", "factor", "batch", "depth", "side", "fprop ms", "total ms", "step ms", "TFLOP/s");
  const Sizes base = is_cpu ? Sizes{2, 2, 12} : Sizes{16, 4, 32};
  for (const char* what : {"batch", "depth", "side"})
    for (const int factor : {1, 2, 4, 8}) {
      Sizes sizes = base;
      const std::string grows = what;
      (grows == "batch" ? sizes.batch : grows == "depth" ? sizes.depth : sizes.side) *= factor;
      const NetRow row = time_net(*backend, scaling_net(sizes.batch, sizes.depth, sizes.side), sizes.batch, precision,
                                  command.runs, ceiling);
      tell("{:<12} {:>6} {:>6} {:>6} {:>6} {:>11.4f} {:>11.4f} {:>11.4f} {:>9.3f}\n", grows, factor, sizes.batch,
           sizes.depth, sizes.side, row.fprop.median, row.total.median, row.train.median, row.counted_tflops());
      std::fflush(stdout);
      nlohmann::json json = row;
      json.update({{"grows", grows}, {"factor", factor}, {"depth", sizes.depth}, {"side", sizes.side}});
      report.add_row(json);
    }
  write_file(command.plot, scaling_chart(report.content()));
}

}  // namespace nixie::benchmark
