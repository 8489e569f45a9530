// Compiles all layers in parallel, then times them one after the other.
#include "nixie/apps/benchmark/commands/sweep_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/plot.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/report/row_by_row.h"
#include "nixie/apps/benchmark/report/sweep_summary.h"
#include "nixie/apps/benchmark/subjects/layer_work.h"
#include "nixie/apps/benchmark/subjects/sweep_layers.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/profile/compile_ahead.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/registry.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 16;

const char* role_text(ConvRole role) {
  return role == ConvRole::output ? "output" : role == ConvRole::input_grad ? "input_grad" : "filter_grad";
}

nlohmann::json time_layer(Backend& backend, const SweepLayer& layer, const PrecisionTraits& precision, int runs,
                          ContractionPeer& peer) {
  const Tensor node = layer.node();
  LayerWork work(backend, node, precision);
  const LayerCheck check = work.compare(kSamples);
  if (!(check.deviation.share() <= 1))
    fail(Fault::non_finite, layer.text(), ", ", role_text(layer.role), " is wrong: max|diff| / mean|ref| is ",
         check.deviation.error(), ", ", check.deviation.share(), " times the rounding error bound in ", precision.name,
         "; it ran ", fmt::format("{}", fmt::join(work.algorithms(), ", ")));
  const Timing own = work.time(runs);
  nlohmann::json row{{"layer", layer.text()},
                     {"role", role_text(layer.role)},
                     {"kind", layer.kind()},
                     {"precision", precision.name},
                     {"gflop", layer.flop() / 1e9},
                     {"megabytes", work.bytes() / 1e6},
                     {"ms", own},
                     {"error", check.deviation.error()},
                     {"share", check.deviation.share()},
                     {"algorithm", fmt::format("{}", fmt::join(work.algorithms(), ", "))}};
  const PeerTiming beside = peer.time_random(contraction_request(node), precision, node, runs);
  row["peer"] = beside;
  if (beside.time.runs > 0) row["ratio"] = beside.time.median / own.median;
  return row;
}

void print_row(std::size_t number, const nlohmann::json& row) {
  const bool has_peer = row.contains("ratio");
  tell("{:>4} {:<11} {:<78} {:>9.2f} us {:>8.2f} TFLOP/s {:>10} {:>6}  {}\n", number, row["role"].get<std::string>(),
       row["layer"].get<std::string>(), 1e3 * row["ms"]["median"].get<double>(),
       row["gflop"].get<double>() / row["ms"]["median"].get<double>(),
       has_peer ? fmt::format("{:.2f}", 1e3 * row["peer"]["ms"]["median"].get<double>()) : "-",
       has_peer ? fmt::format("{:.2f}x", row["ratio"].get<double>()) : "-", row["algorithm"].get<std::string>());
  std::fflush(stdout);
}

}  // namespace

void run_sweep(const SweepCommand& command) {
  Report report("sweep", command.json, command.csv);
  check_writable(command.plot);
  const std::shared_ptr<Backend> backend = make_backend(command.backend, command.threads);
  const bool is_cpu = backend->name() == "cpu";
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  ContractionPeer peer(command.peer, is_cpu);
  report.set("peer", peer.program());
  report.set("seed", command.seed);
  tell("{}peer: {}\n", facts_text(report.content()), peer.program());
  const int count = command.count > 0 ? command.count : is_cpu ? 40 : 300;
  const SweepLimits limits = is_cpu ? SweepLimits{1e4, 2e7, 3e5} : SweepLimits{};
  std::vector<SweepLayer> layers = draw_sweep(count, command.seed, limits);
  const auto& kinds = command.kinds;
  std::erase_if(layers, [&](const SweepLayer& layer) {
    return !kinds.empty() && std::find(kinds.begin(), kinds.end(), layer.kind()) == kinds.end();
  });
  std::vector<std::string> precisions = command.precisions;
  if (precisions.empty()) precisions = {is_cpu ? "fp32" : "fp16"};
  RowByRow each;
  for (const std::string& name : precisions) {
    const PrecisionTraits precision = precision_named(name);
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    compile_ahead(*backend, static_cast<std::int64_t>(layers.size()), [&](std::int64_t i) {
      LayerWork(*backend, layers[static_cast<std::size_t>(i)].node(), precision).compile();
    });
    tell("\n{}: {} layers of seed {}, compiled in {:.1f} s; median us, TFLOP/s, peer us, ratio\n", name, layers.size(),
         command.seed, seconds());
    for (std::size_t i = 0; i < layers.size(); ++i)
      each.make([&] {
        report.add_row(time_layer(*backend, layers[i], precision, command.runs, peer));
        print_row(i, report.content()["rows"].back());
      });
    tell("{:.1f} s in all\n", seconds());
  }
  report.set("summary", sweep_summary(report.content()["rows"]));
  report.set("clocks_after", device_facts(*backend, ""));
  tell("\n{}", sweep_text(report.content()["rows"]));
  report.write();
  write_file(command.plot, sweep_chart(report.content()));
  each.raise();
}

}  // namespace nixie::benchmark
