// `mpirun -np N benchmark ranks`: training steps of nets on N ranks beside those of each rank by itself.
#include <chrono>

#include "nixie/apps/benchmark/commands/commands.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/subjects/net_work.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/launched_world.h"
#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"

namespace nixie::benchmark {
namespace {

const Columns kNets{{"net", -12, "net"},
                    {"precision", -9, "precision"},
                    {"ranks", 5, "ranks"},
                    {"batch of each", 13, "batch"},
                    {"gradients MB", 12, "gradient_mb", "{:.1f}"},
                    {"alone ms", 10, "alone_ms", "{:.3f}"},
                    {"together ms", 11, "together_ms", "{:.3f}"},
                    {"% of linear", 11, "percent", "{:.1f}"}};
const Columns kSums{
    {"sum of MB", 10, "mb", "{:.3f}"}, {"ms", 10, "ms", "{:.4f}"}, {"GB/s", 8, "gb_per_second", "{:.1f}"}};

/// Milliseconds of a run, of each of a few blocks of as many runs: all ranks make the same number.
Timing time_together(Backend& backend, int runs, const std::function<void()>& work) {
  constexpr int kBlocks = 5, kWarm = 4;  // the first runs compile, and record the graph
  for (int i = 0; i < kWarm; ++i) work();
  std::vector<double> times;
  for (int block = 0; block < kBlocks; ++block) {
    backend.synchronize();
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) work();
    backend.synchronize();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count() / runs);
  }
  return summarize(times);
}

/// The rate is nccl-tests' bus bandwidth: what each rank sends and receives of a sum by a ring.
nlohmann::json time_sum(Backend& backend, const World& world, std::int64_t bytes, int runs) {
  Step step(backend, [&](const Inputs& in) -> Outputs { return {{"sum", all_reduce(world, in["x"])}}; });
  const Tensor x = evaluate(zeros({bytes / 4}), backend);
  const Timing timing = time_together(backend, runs, [&] { step({{"x", x}}); });
  const double sent = 2.0 * static_cast<double>(bytes) * (world.size() - 1) / world.size();
  return {{"mb", static_cast<double>(bytes) / 1e6}, {"ms", timing}, {"gb_per_second", sent / timing.median / 1e6}};
}

nlohmann::json time_net(Backend& backend, const World& world, const Net& net, int batch,
                        const PrecisionTraits& precision, int runs) {
  const auto time = [&](const World& ranks) {
    NetWork work(backend, net, batch, precision, Fusion::full, ranks);
    const Timing timing = time_together(backend, runs, [&] { work.train(); });
    return std::pair(timing, work.parameters());
  };
  const auto alone = time({}), together = time(world);
  return {{"net", net.name},
          {"precision", precision.name},
          {"ranks", world.size()},
          {"batch", batch},
          {"gradient_mb", static_cast<double>(alone.second) * 4e-6},
          {"alone_ms", alone.first},
          {"together_ms", together.first},
          {"percent", 100 * alone.first.median / together.first.median}};
}

void run(const NetChoice& choice) {
  const World& world = launched_world();
  check(!world.is_alone(), "ranks: this is one process; start several: mpirun -np 2 benchmark ranks");
  const std::shared_ptr<Backend> backend = make_backend(choice.machine.backend, choice.machine.threads, world);
  const std::vector<Net> nets = wanted_nets(choice);
  const std::vector<PrecisionTraits> precisions = wanted_precisions(choice, *backend);
  const auto each_row = [&](const auto& take) {
    for (std::int64_t bytes = 1 << 10; bytes <= (is_cpu(*backend) ? 1 << 24 : 1 << 29); bytes *= 8)
      take(kSums, time_sum(*backend, world, bytes, choice.runs));
    for (const PrecisionTraits& precision : precisions)
      for (const Net& net : nets)
        take(kNets, time_net(*backend, world, net, batch_of(choice, net, *backend), precision, choice.runs));
  };
  if (!world.is_first()) return each_row([](const Columns&, const nlohmann::json&) {});
  Report report("ranks", choice.files);
  report.begin(*backend, own_threads(choice.machine.threads, world));
  const Columns* shown = nullptr;
  each_row([&](const Columns& columns, const nlohmann::json& row) {
    if (std::exchange(shown, &columns) != &columns) report.print_header(columns);
    report.add_row(row);
  });
  report.complete();
}

}  // namespace

Subcommand add_ranks(CLI::App& app) {
  const auto choice = std::make_shared<NetChoice>();
  CLI::App* ranks = app.add_subcommand("ranks", "under mpirun: sums and training steps on several ranks");
  add_net_options(*ranks, *choice);
  return {ranks, [choice] { run(*choice); }};
}

}  // namespace nixie::benchmark
