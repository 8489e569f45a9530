// Each contraction of the net's graph is rebuilt on operands of its own.
#include "nixie/apps/benchmark/commands/layers_command.h"

#include <algorithm>

#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/benchmark/measure/ceiling.h"
#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/plot.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/work/host_noise.h"
#include "nixie/apps/benchmark/work/net_work.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/core/ops/ops.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 32;

/// What an operand is a view of lies in memory: a weight is stored once and read transposed.
struct Operand {
  Shape stored;
  bool transposed = false;

  explicit Operand(const Tensor& x) : stored(x.shape()) {
    if (!std::holds_alternative<Permute>(x.node().op)) return;
    stored = x.inputs()[0].shape();
    transposed = true;
    check(stored.rank() == 2, "an operand of shape ", stored, " is read in another order; only matrices are");
  }
  Tensor read(const Tensor& x) const { return transposed ? transpose(x, 0, 1) : x; }
};

std::string shape_text(const Tensor& node) {
  return fmt::format("{} x {}", to_string(node.inputs()[0].shape()), to_string(node.inputs()[1].shape()));
}

void print_header() {
  fmt::print("{:<9} {:<24} {:<6} {:>10} {:<19} {:>8} {:>8} {:>11} {:>6} {:>9} {}\n", "precision", "layer", "role",
             "median us", "(min - max)", "TFLOP/s", "GB/s", "roofline us", "% of it", "error", peer_header());
}

void print_row(const LayerRow& row) {
  fmt::print("{:<9} {:<24} {:<6} {:>10.1f} {:<19} {:>8.2f} {:>8.1f} {:>11.1f} {:>6.1f} {:>9.1e} {}\n", row.precision,
             row.layer, row.role, 1e3 * row.time.median,
             fmt::format("({:.1f} - {:.1f})", 1e3 * row.time.min, 1e3 * row.time.max), row.tflops(),
             row.gigabytes_per_second(), 1e3 * row.roofline_ms, 100 * row.roofline_ms / row.time.median, row.error,
             peer_cells(row.peer, row.time.median));
  std::fflush(stdout);
}

/// What the peer has to compute.
nlohmann::json request_of(const Tensor& node) {
  const auto* conv = std::get_if<Conv>(&node.node().op);
  if (!conv) return {{"op", "matmul"}};
  const char* role = conv->role == ConvRole::output       ? "output"
                     : conv->role == ConvRole::input_grad ? "input_grad"
                                                          : "filter_grad";
  return {{"op", "conv"},
          {"role", role},
          {"stride", conv->stride},
          {"pad", conv->pad},
          {"groups", conv->groups},
          {"dilation", conv->dilation},
          {"shape", node.shape().sizes()}};
}

}  // namespace

LayerRow time_layer(Backend& backend, const Contraction& contraction, const PrecisionTraits& precision, int runs,
                    ContractionPeer& peer) {
  const Tensor& node = contraction.node;
  const Operand a(node.inputs()[0]), b(node.inputs()[1]);
  const Array left = host_noise(a.stored, precision.data, "a"), right = host_noise(b.stored, precision.data, "b");
  // Variables, as they lie in memory the way activations and weights do inside a step.
  const Variable x = operand_variable("a", left), y = operand_variable("b", right),
                 result = operand_variable("result", Array(precision.data, node.shape()));
  Step step(
      backend,
      [&](const Inputs&) {
        const auto operand = [](const Operand& of, const Variable& value) {
          return cast(of.read(value.value()), Dtype::f32);
        };
        result.set(cast(Tensor::make(node.node().op, {operand(a, x), operand(b, y)}, node.shape(), Dtype::f32),
                        precision.data));
        return Outputs{};
      },
      precision.policy);
  step({});
  const std::vector<std::int64_t> positions = sampled_positions(node.shape().size(), kSamples);
  const std::vector<double> expected = reference_elements(node, rounded(left, precision.operands, a.transposed),
                                                          rounded(right, precision.operands, b.transposed), positions);
  const double element_bytes = static_cast<double>(size_of(precision.data));
  LayerRow row{.precision = precision.name,
               .layer = contraction.layer,
               .role = std::string(to_string(contraction.role)),
               .shape = shape_text(node),
               .flop = flop(node),
               .bytes = element_bytes * static_cast<double>(a.stored.size() + b.stored.size() + node.shape().size()),
               .error = deviation_at(result.array(), positions, expected).error(),
               .bound = precision.element_bound};
  if (!(row.error <= row.bound))
    fail(Fault::non_finite, row.layer, " ", row.role, " is wrong: max|diff| / mean|ref| is ", row.error, ", at most ",
         row.bound, " is right for ", precision.name);
  row.time = time_for(backend, [&] { step({}); }, runs, {.least_ms = 0.5, .most = 50, .warm_seconds = 0.02});
  row.peer =
      peer.time(request_of(node), precision, {{left, a.transposed}, {right, b.transposed}}, positions, expected, runs);
  return row;
}

std::vector<LayerRow> run_layers(const LayersCommand& command) {
  Report report("layers", command.json, command.csv);
  check_writable(command.plot);
  const std::shared_ptr<Backend> backend = open_backend(command.backend, command.threads);
  const bool is_cpu = backend->name() == "cpu";
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  const double copy_rate = measure_copy_rate(*backend);
  report.set("copy_gigabytes_per_second", copy_rate);
  ContractionPeer peer(command.peer, is_cpu);
  report.set("peer", peer.program());
  fmt::print("{}copy {:.1f} GB/s\npeer: {}\n", facts_text(report.content()), copy_rate, peer.program());
  std::vector<std::string> precisions = command.precisions, names = command.nets;
  if (precisions.empty())
    precisions = is_cpu ? std::vector<std::string>{"fp32"} : std::vector<std::string>{"fp16", "fp32"};
  if (names.empty()) names = {"alexnet"};
  std::vector<LayerRow> rows;
  for (const std::string& name : precisions) {
    const PrecisionTraits precision = precision_named(name);
    const double ceiling = measure_matmul_ceiling(*backend, precision);
    report.set("ceiling_tflops_" + name, ceiling);
    for (const Net& net : conv_nets(false)) {
      if (!std::count(names.begin(), names.end(), net.name)) continue;
      const int batch = command.batch > 0 ? command.batch : is_cpu ? net.cpu_batch : net.batch;
      fmt::print("\n{}, batch {}; {} ceiling {:.2f} TFLOP/s\n", net.name, batch, name, ceiling);
      print_header();
      Scope scope(net.name, name);
      for (const Contraction& contraction : contractions_of_net(net, batch)) {
        LayerRow row = time_layer(*backend, contraction, precision, command.runs, peer);
        row.net = net.name;
        row.roofline_ms = std::max(row.flop / ceiling / 1e9, row.bytes / copy_rate / 1e6);
        print_row(row);
        report.add_row(row);
        report.write();
        rows.push_back(std::move(row));
      }
    }
  }
  report.write();
  write_file(command.plot, layers_chart(report.content()));
  return rows;
}

}  // namespace nixie::benchmark
