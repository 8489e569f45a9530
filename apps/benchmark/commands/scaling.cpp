// `benchmark scaling`: the cost of a net over its batch, its depth and the side of its images, one at a time.
#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/subjects/net_times.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie::benchmark {
namespace {

struct Sizes {
  int batch, depth, side;
};

const Columns kColumns{{"what grows", -12, "grows"},
                       {"factor", 6, "factor"},
                       {"batch", 6, "batch"},
                       {"depth", 6, "depth"},
                       {"side", 6, "side"},
                       {"fprop ms", 11, "fprop_ms", "{:.4f}"},
                       {"total ms", 11, "total_ms", "{:.4f}"},
                       {"step ms", 11, "train_ms", "{:.4f}"},
                       {"TFLOP/s", 9, "counted_tflops", "{:.3f}"}};

void run(const NetChoice& choice) {
  Report report("scaling", choice.files);
  const std::shared_ptr<Backend> backend = open_backend(choice);
  const PrecisionTraits precision = wanted_precisions(choice, *backend)[0];
  report.begin(*backend, choice.machine.threads);
  const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
  tell("{}\n", precision.name);
  report.print_header(kColumns);
  const Sizes base = is_cpu(*backend) ? Sizes{2, 2, 12} : Sizes{16, 4, 32};
  for (const char* what : {"batch", "depth", "side"})
    for (const int factor : {1, 2, 4, 8}) {
      Sizes sizes = base;
      const std::string grows = what;
      (grows == "batch" ? sizes.batch : grows == "depth" ? sizes.depth : sizes.side) *= factor;
      nlohmann::json row = time_net(*backend, scaling_net(sizes.batch, sizes.depth, sizes.side), sizes.batch, precision,
                                    choice.runs, ceiling);
      row.update({{"grows", grows}, {"factor", factor}, {"depth", sizes.depth}, {"side", sizes.side}});
      report.add_row(row);
    }
  report.complete();
}

}  // namespace

Subcommand add_scaling(CLI::App& app) {
  const auto choice = std::make_shared<NetChoice>();
  CLI::App* scaling = add_command(app, "scaling", "the cost of a net over its batch, depth and image size");
  add_precisions(*scaling, choice->precisions, "fp16 on a GPU, fp32 on a CPU by default");
  add_machine(*scaling, choice->machine);
  add_runs(*scaling, choice->runs, "timed runs, 10 by default");
  add_files(*scaling, choice->files);
  return {scaling, [choice] { run(*choice); }};
}

}  // namespace nixie::benchmark
