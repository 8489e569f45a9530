// `benchmark layers`: every product and convolution of a net alone, in each role, against the device's roofline and
// cuBLAS and cuDNN.
#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/subjects/contraction_peer.h"
#include "nixie/apps/benchmark/subjects/layer_work.h"
#include "nixie/apps/benchmark/subjects/net_work.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 32;

struct Layers : NetChoice {
  Layers() { nets = {"alexnet"}; }
  ContractionPeerOptions peer = {{.seconds = 120}};
};

const Columns kColumns = with_peer({{"precision", -9, "precision"},
                                    {"layer", -24, "layer"},
                                    {"role", -6, "role"},
                                    {"median us", 10, "ms", "{:.1f}", 1e3},
                                    {"(min - max)", -19, "ms", "({1:.1f} - {2:.1f})", 1e3},
                                    {"TFLOP/s", 8, "tflops", "{:.2f}"},
                                    {"GB/s", 8, "gigabytes_per_second", "{:.1f}"},
                                    {"roofline us", 11, "roofline_ms", "{:.1f}", 1e3},
                                    {"% of it", 7, "percent_of_roofline", "{:.1f}"},
                                    {"error", 9, "error", "{:.1e}"}});

/// Times and checks one contraction by itself, on random operands, in nixie and the peer.
nlohmann::json time_layer(Backend& backend, const Contraction& contraction, const PrecisionTraits& precision, int runs,
                          ContractionPeer& peer) {
  const Tensor& node = contraction.node;
  LayerWork work(backend, node, precision);
  const LayerCheck check = work.compare(kSamples);
  const std::string role(to_string(contraction.role));
  check_rounding(check.deviation, contraction.layer + " " + role, precision);
  const Timing time = work.time(runs);
  nlohmann::json row{
      {"precision", precision.name},
      {"layer", contraction.layer},
      {"role", role},
      {"shape", fmt::format("{} x {}", to_string(node.inputs()[0].shape()), to_string(node.inputs()[1].shape()))},
      {"ms", time},
      {"gflop", flop(node) / 1e9},
      {"megabytes", work.bytes() / 1e6},
      {"tflops", flop(node) / time.median / 1e9},
      {"gigabytes_per_second", work.bytes() / time.median / 1e6},
      {"error", check.deviation.error()},
      {"share", check.deviation.share()}};
  set_peer(row,
           peer.time(contraction_request(node), precision, work.operands(), check.positions, check.expected, runs));
  return row;
}

void run(const Layers& command) {
  Report report("layers", command.files);
  const std::vector<Net> nets = wanted_nets(command);
  const std::shared_ptr<Backend> backend = open_backend(command);
  report.begin(*backend, command.machine.threads);
  ContractionPeer peer(command.peer, is_cpu(*backend));
  const double copy_rate = begin_rooflines(report, *backend, peer);
  for (const PrecisionTraits& precision : wanted_precisions(command, *backend)) {
    const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
    report.set("ceiling_tflops_" + precision.name, ceiling);
    for (const Net& net : nets) {
      const int batch = batch_of(command, net, *backend);
      tell("\n{}, batch {}; {} ceiling {:.2f} TFLOP/s\n", net.name, batch, precision.name, ceiling);
      report.print_header(kColumns);
      Scope scope(net.name, precision.name);
      for (const Contraction& contraction : contractions_of_net(net, batch)) {
        nlohmann::json row = time_layer(*backend, contraction, precision, command.runs, peer);
        row["net"] = net.name;
        set_roofline(row, 1e6 * row["megabytes"].get<double>(), ceiling, copy_rate);
        report.add_row(row);
      }
    }
  }
  report.complete();
}

}  // namespace

Subcommand add_layers(CLI::App& app) {
  const auto command = std::make_shared<Layers>();
  CLI::App* layers =
      add_command(app, "layers", "every layer of a net alone, in each role, against the roofline and cuDNN");
  add_net_options(*layers, *command, "alexnet by default");
  add_peer(*layers, command->peer);
  return {layers, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
