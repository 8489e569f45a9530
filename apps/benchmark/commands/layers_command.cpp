// Times the contractions of a net's graph one by one.
#include "nixie/apps/benchmark/commands/layers_command.h"

#include <algorithm>

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/plot.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/layer_work.h"
#include "nixie/apps/benchmark/subjects/net_work.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/profile/ceiling.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 32;

std::string shape_text(const Tensor& node) {
  return fmt::format("{} x {}", to_string(node.inputs()[0].shape()), to_string(node.inputs()[1].shape()));
}

void print_header() {
  tell("{:<9} {:<24} {:<6} {:>10} {:<19} {:>8} {:>8} {:>11} {:>6} {:>9} {}\n", "precision", "layer", "role",
       "median us", "(min - max)", "TFLOP/s", "GB/s", "roofline us", "% of it", "error", peer_header());
}

void print_row(const LayerRow& row) {
  tell("{:<9} {:<24} {:<6} {:>10.1f} {:<19} {:>8.2f} {:>8.1f} {:>11.1f} {:>6.1f} {:>9.1e} {}\n", row.precision,
       row.layer, row.role, 1e3 * row.time.median,
       fmt::format("({:.1f} - {:.1f})", 1e3 * row.time.min, 1e3 * row.time.max), row.tflops(),
       row.gigabytes_per_second(), 1e3 * row.roofline_ms, 100 * row.roofline_ms / row.time.median, row.error,
       peer_cells(row.peer, row.time.median));
  std::fflush(stdout);
}

}  // namespace

LayerRow time_layer(Backend& backend, const Contraction& contraction, const PrecisionTraits& precision, int runs,
                    ContractionPeer& peer) {
  const Tensor& node = contraction.node;
  LayerWork work(backend, node, precision);
  const LayerCheck check = work.compare(kSamples);
  LayerRow row{.precision = precision.name,
               .layer = contraction.layer,
               .role = std::string(to_string(contraction.role)),
               .shape = shape_text(node),
               .flop = flop(node),
               .bytes = work.bytes(),
               .error = check.deviation.error(),
               .share = check.deviation.share()};
  if (!(row.share <= 1))
    fail(Fault::non_finite, row.layer, " ", row.role, " is wrong: max|diff| / mean|ref| is ", row.error, ", ",
         row.share, " times the rounding error bound in ", precision.name);
  row.time = work.time(runs);
  row.peer = peer.time(contraction_request(node), precision, work.operands(), check.positions, check.expected, runs);
  return row;
}

std::vector<LayerRow> run_layers(const LayersCommand& command) {
  Report report("layers", command.json, command.csv);
  check_writable(command.plot);
  const std::vector<Net> nets = wanted_nets(command);
  const std::shared_ptr<Backend> backend = open_backend_of(command);
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  const double copy_rate = measure_copy_rate(*backend);
  report.set("copy_gigabytes_per_second", copy_rate);
  ContractionPeer peer(command.peer, backend->name() == "cpu");
  report.set("peer", peer.program());
  tell("{}copy {:.1f} GB/s\npeer: {}\n", facts_text(report.content()), copy_rate, peer.program());
  std::vector<LayerRow> rows;
  for (const PrecisionTraits& precision : wanted_precisions(command, *backend)) {
    const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
    report.set("ceiling_tflops_" + precision.name, ceiling);
    for (const Net& net : nets) {
      const int batch = batch_of(command, net, *backend);
      tell("\n{}, batch {}; {} ceiling {:.2f} TFLOP/s\n", net.name, batch, precision.name, ceiling);
      print_header();
      Scope scope(net.name, precision.name);
      for (const Contraction& contraction : contractions_of_net(net, batch)) {
        LayerRow row = time_layer(*backend, contraction, precision, command.runs, peer);
        row.net = net.name;
        row.roofline_ms = std::max(row.flop / ceiling / 1e9, row.bytes / copy_rate / 1e6);
        print_row(row);
        report.add_row(row);
        rows.push_back(std::move(row));
      }
    }
  }
  report.write();
  write_file(command.plot, layers_chart(report.content()));
  return rows;
}

}  // namespace nixie::benchmark
