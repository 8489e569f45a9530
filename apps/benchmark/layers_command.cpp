// Each contraction of the net's graph is rebuilt on operands of its own.
#include "apps/benchmark/layers_command.h"

#include <algorithm>

#include "apps/benchmark/ceiling.h"
#include "apps/benchmark/facts.h"
#include "apps/benchmark/json_rows.h"
#include "apps/benchmark/net_work.h"
#include "apps/benchmark/plot.h"
#include "apps/benchmark/reference.h"
#include "apps/benchmark/report.h"
#include "apps/trainer/machine.h"
#include "core/ops.h"
#include "core/random.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 32;

/// What an operand is a view of lies in memory: a weight is stored once and read transposed.
struct Operand {
  Shape stored;
  Axes order = {};  ///< empty: as stored

  explicit Operand(const Tensor& x) : stored(x.shape()) {
    if (const auto* permute = std::get_if<Permute>(&x.node().op)) {
      stored = x.inputs()[0].shape();
      order = permute->order;
    }
  }
  Tensor read(const Tensor& x) const { return order.empty() ? x : permute(x, order); }
};

std::string shape_text(const Tensor& node) {
  return fmt::format("{} x {}", to_string(node.inputs()[0].shape()), to_string(node.inputs()[1].shape()));
}

void print_row(const LayerRow& row) {
  fmt::print("{:<9} {:<24} {:<6} {:>10.1f} ({:.1f} - {:.1f}) {:>8.2f} {:>8.1f} {:>10.1f} {:>6.1f} {:>9.1e}\n",
             row.precision, row.layer, row.role, 1e3 * row.time.median, 1e3 * row.time.min, 1e3 * row.time.max,
             row.tflops(), row.gigabytes_per_second(), 1e3 * row.roofline_ms, 100 * row.roofline_ms / row.time.median,
             row.error);
  std::fflush(stdout);
}

}  // namespace

LayerRow time_layer(Backend& backend, const Contraction& contraction, const PrecisionTraits& precision, int runs) {
  const Tensor& node = contraction.node;
  const Operand a(node.inputs()[0]), b(node.inputs()[1]);
  const auto draw = [&](const Shape& shape, const char* purpose) {
    return cast(uniform(shape, random_stream(1, purpose)) - 0.5, precision.data);
  };
  const std::vector<Tensor> stored = evaluate({draw(a.stored, "a"), draw(b.stored, "b")}, backend);
  const std::map<std::string, Tensor> inputs{{"a", stored[0]}, {"b", stored[1]}};
  // The views are outputs of another step: the reference wants the operands as the node sees them.
  Step step(
      backend,
      [&](const Inputs& in) {
        const auto operand = [](const Operand& of, const Tensor& x) { return cast(of.read(x), Dtype::f32); };
        const Tensor result =
            Tensor::make(node.node().op, {operand(a, in["a"]), operand(b, in["b"])}, node.shape(), Dtype::f32);
        return Outputs{{"result", cast(result, precision.data)}};
      },
      precision.policy);
  const std::vector<Tensor> seen = evaluate({a.read(stored[0]) + 0.0, b.read(stored[1]) + 0.0}, backend);
  const Deviation deviation = compare_with_reference(node, seen[0].array(), seen[1].array(),
                                                     step(inputs).at("result").array(), precision.operands, kSamples);
  const double element_bytes = static_cast<double>(size_of(precision.data));
  LayerRow row{.precision = precision.name,
               .layer = contraction.layer,
               .role = std::string(to_string(contraction.role)),
               .shape = shape_text(node),
               .flop = flop(node),
               .bytes = element_bytes * static_cast<double>(a.stored.size() + b.stored.size() + node.shape().size()),
               .error = deviation.error(),
               .bound = precision.element_bound};
  if (!(row.error <= row.bound))
    fail(Fault::non_finite, row.layer, " ", row.role, " is wrong: max|diff| / mean|ref| is ", row.error, ", at most ",
         row.bound, " is right for ", precision.name);
  row.time = time_for(backend, [&] { step(inputs); }, runs, {.least_ms = 0.5, .most = 20, .warm_seconds = 0.03});
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
  fmt::print("{}copy {:.1f} GB/s\n", facts_text(report.content()), copy_rate);
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
      fmt::print(
          "\n{}, batch {}; {} ceiling {:.2f} TFLOP/s\n{:<9} {:<24} {:<6} {:>10} {:<15} {:>8} {:>8} {:>10} {:>6} "
          "{:>9}\n",
          net.name, batch, name, ceiling, "precision", "layer", "role", "median us", "(min - max)", "TFLOP/s", "GB/s",
          "roofline us", "% of it", "error");
      Scope scope(net.name, name);
      for (const Contraction& contraction : contractions_of_net(net, batch)) {
        LayerRow row = time_layer(*backend, contraction, precision, command.runs);
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
