// `benchmark sweep`: layers that are drawn or listed in a file, each checked in double, beside cuDNN and cuBLAS.
// Compiles all layers in parallel, then times them one after the other.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/contraction_peer.h"
#include "nixie/apps/benchmark/subjects/contractions.h"
#include "nixie/apps/benchmark/subjects/layer_work.h"
#include "nixie/apps/benchmark/subjects/sweep_layers.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 16;

struct Sweep : Common {
  Sweep() { runs = 7; }
  int count = 0;  ///< 0: 300 on a GPU, 40 on a CPU
  std::uint64_t seed = 1;
  std::string list = {};  ///< a file of layers, in place of drawn ones
  std::vector<std::string> kinds = {};
  ContractionPeerOptions peer = {{.seconds = 900}};
};

const Columns kColumns{{"", 4, "number"},
                       {"role", -11, "role"},
                       {"layer", -78, "layer"},
                       {"median us", 9, "ms", "{:.2f}", 1e3},
                       {"TFLOP/s", 8, "tflops", "{:.2f}"},
                       {"peer us", 10, "peer.ms", "{:.2f}", 1e3},
                       {"ratio", 6, "ratio", "{:.2f}x"},
                       {"algorithm", -1, "algorithm"}};

nlohmann::json time_layer(Backend& backend, const ListedLayer& layer, const PrecisionTraits& precision, int runs,
                          ContractionPeer& peer) {
  LayerWork work(backend, layer.node, precision);
  const LayerCheck check = work.compare(kSamples);
  const std::string algorithm = fmt::format("{}", fmt::join(work.algorithms(), ", "));
  check_rounding(check.deviation, fmt::format("{}, {}", layer.layer, layer.role), precision, "; it ran " + algorithm);
  const Timing own = work.time(runs);
  const double flops = flop(layer.node);
  nlohmann::json row{{"layer", layer.layer},
                     {"role", layer.role},
                     {"kind", layer.kind},
                     {"precision", precision.name},
                     {"gflop", flops / 1e9},
                     {"megabytes", work.bytes() / 1e6},
                     {"ms", own},
                     {"tflops", flops / own.median / 1e9},
                     {"error", check.deviation.error()},
                     {"share", check.deviation.share()},
                     {"algorithm", algorithm}};
  if (!layer.source.empty()) row.update({{"source", layer.source}, {"count", layer.count}});
  set_peer(row, peer.time_random(contraction_request(layer.node), precision, layer.node, runs));
  return row;
}

std::vector<ListedLayer> wanted_layers(const Sweep& command, bool on_cpu) {
  std::vector<ListedLayer> layers;
  if (!command.list.empty()) {
    layers = read_layer_list(command.list);
  } else {
    const int count = command.count > 0 ? command.count : on_cpu ? 40 : 300;
    const SweepLimits limits = on_cpu ? SweepLimits{1e4, 2e7, 3e5} : SweepLimits{};
    for (const SweepLayer& layer : draw_sweep(count, command.seed, limits))
      layers.push_back({"", 1, role_name(layer.role), layer.text(), layer.kind(), layer.node()});
  }
  const auto& kinds = command.kinds;
  std::erase_if(layers, [&](const ListedLayer& layer) {
    return !kinds.empty() && std::find(kinds.begin(), kinds.end(), layer.kind) == kinds.end();
  });
  return layers;
}

void run(const Sweep& command) {
  Report report("sweep", command.files);
  const std::shared_ptr<Backend> backend = begin_report(report, command);
  ContractionPeer peer(command.peer, is_cpu(*backend));
  report.set("peer", peer.program());
  if (command.list.empty())
    report.set("seed", command.seed);
  else
    report.set("list", command.list);
  tell("peer: {}\n", peer.program());
  if (peer.works()) check_renderer();  // it sums the rows up
  const std::vector<ListedLayer> layers = wanted_layers(command, is_cpu(*backend));
  RowByRow each;
  for (const PrecisionTraits& precision : precisions_of(command.precisions, *backend, {"fp16"})) {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    compile_ahead(*backend, static_cast<std::int64_t>(layers.size()), [&](std::int64_t i) {
      LayerWork(*backend, layers[static_cast<std::size_t>(i)].node, precision).plan();
    });
    const std::string from = command.list.empty() ? fmt::format("seed {}", command.seed) : command.list;
    tell("\n{}: {} layers of {}, compiled in {:.1f} s\n", precision.name, layers.size(), from, seconds());
    report.print_header(kColumns);
    for (std::size_t i = 0; i < layers.size(); ++i)
      each.make([&] {
        nlohmann::json row = time_layer(*backend, layers[i], precision, command.runs, peer);
        row["number"] = i;
        report.add_row(row);
      });
    tell("{:.1f} s in all\n", seconds());
  }
  report.complete();
  const auto has_peer = [](const nlohmann::json& row) { return row.contains("ratio"); };
  if (std::ranges::any_of(report.rows(), has_peer))
    tell("\n{}", rendered({"-"}, report.content().dump()));
  else
    tell("\n{} layers, no peer beside them\n", report.rows().size());
  each.raise();
}

}  // namespace

Subcommand add_sweep(CLI::App& app) {
  const auto command = std::make_shared<Sweep>();
  CLI::App* sweep =
      app.add_subcommand("sweep", "random or listed layers in every role, checked, beside cuDNN and cuBLAS");
  sweep->add_option("--count", command->count, "layers, by default 300 on a GPU and 40 on a CPU")
      ->check(CLI::Range(1, 100000));
  sweep->add_option("--seed", command->seed, "which layers, 1 by default");
  sweep->add_option("--list", command->list, "a file of layers in place of drawn ones (docs/benchmarks.md)")
      ->check(CLI::ExistingFile)
      ->excludes("--count", "--seed");
  add_names(*sweep, "--kind", command->kinds, {"dense", "depthwise", "grouped", "1x1", "window", "linear", "product"},
            "only these kinds of layers: dense are drawn, 1x1, window, linear and product listed ones");
  add_precisions(*sweep, command->precisions, "by default fp16 on a GPU, fp32 on a CPU");
  add_machine(*sweep, command->machine);
  add_runs(*sweep, command->runs, "timed measurements, 7 by default");
  add_peer(*sweep, command->peer);
  add_files(*sweep, command->files);
  return {sweep, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
