// The grid: nervanagpu's small, odd and large sizes, linear layers of 1k to 4k over 16 to 128 images, and whole layers.
#include "nixie/apps/benchmark/commands/gemm_command.h"

#include <algorithm>
#include <array>

#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/plot.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/host_noise.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/profile/ceiling.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 64;

using Sizes = std::array<std::int64_t, 3>;  // m, n, k

std::vector<Sizes> grid() {
  std::vector<Sizes> sizes = {{1, 1, 1},          {2, 3, 4},          {7, 9, 5},          {16, 32, 64},
                              {64, 65, 72},       {120, 127, 128},    {192, 192, 192},    {512, 256, 784},
                              {779, 787, 793},    {1024, 1024, 1024}, {1533, 1533, 1533}, {4095, 4095, 4095},
                              {4096, 4096, 4096}, {1, 4096, 4096},    {128, 1000, 4096},  {128, 4096, 9216},
                              {64, 4096, 25088}};
  for (const std::int64_t batch : {16, 32, 64, 128})
    for (const std::int64_t units : {1024, 2048, 3072, 4096}) sizes.push_back({batch, units, units});
  for (const std::int64_t units : {1024, 2048, 4096}) sizes.push_back({units, units, 128});  // their weights' gradients
  return sizes;
}

void print_header() {
  tell("{:<9} {:>21} {:>3} {:>4} {:>4} {:>11} {:<15} {:>8} {:>6} {:>9} {}\n", "precision", "m x n x k", "", "alph",
       "beta", "median us", "(min - max)", "TFLOP/s", "% roof", "error", peer_header());
}

void print_row(const GemmRow& row) {
  tell("{:<9} {:>5} x {:>5} x {:>5} {:>3} {:>4} {:>4} {:>11.2f} {:<15} {:>8.3f} {:>6.1f} {:>9.1e} {}\n", row.precision,
       row.m, row.n, row.k, row.layout, row.alpha, row.beta, 1e3 * row.time.median,
       fmt::format("({:.2f} - {:.2f})", 1e3 * row.time.min, 1e3 * row.time.max), row.tflops(),
       100 * row.roofline_ms / row.time.median, row.error, peer_cells(row.peer, row.time.median));
  std::fflush(stdout);
}

std::vector<GemmRow> wanted_rows(const GemmCommand& command, bool is_cpu) {
  constexpr double kMostOnCpu = 1e8;  // multiplications
  std::vector<Sizes> sizes = grid();
  if (!command.size.empty()) sizes = {{command.size[0], command.size[1], command.size[2]}};
  std::vector<GemmRow> rows;
  for (const auto& [m, n, k] : sizes) {
    const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    if (is_cpu && command.size.empty() && work > kMostOnCpu) continue;
    for (const char* layout : {"nn", "tn", "nt"}) rows.push_back({.layout = layout, .m = m, .n = n, .k = k});
    rows.push_back({.layout = "nn", .m = m, .n = n, .k = k, .alpha = 0.5, .beta = 0.5});
  }
  return rows;
}

double element(const Array& array, std::int64_t row, std::int64_t column, bool is_transposed) {
  const std::int64_t width = array.shape()[1];
  const std::int64_t position = is_transposed ? column * width + row : row * width + column;
  return static_cast<double>(array.data<float>()[static_cast<std::size_t>(position)]);
}

/// Elements of the result in double; the arrays are f32.
std::vector<ExactSum> expected_elements(const GemmRow& row, const Array& a, const Array& b, const Array& c,
                                        const std::vector<std::int64_t>& positions) {
  std::vector<ExactSum> elements;
  for (const std::int64_t position : positions) {
    const std::int64_t i = position / row.n, j = position % row.n;
    ExactSum& sum = elements.emplace_back();
    for (std::int64_t k = 0; k < row.k; ++k)
      sum.add(row.alpha * element(a, i, k, row.layout[0] == 't') * element(b, k, j, row.layout[1] == 't'));
    if (row.beta != 0) sum.add(row.beta * element(c, i, j, false));
  }
  return elements;
}

/// Operands read once and the result written once.
double bytes_of(const GemmRow& row, const PrecisionTraits& precision) {
  const std::int64_t elements = row.m * row.k + row.k * row.n + (row.beta == 0 ? 1 : 2) * row.m * row.n;
  return static_cast<double>(elements * size_of(precision.data));
}

}  // namespace

GemmRow time_gemm(Backend& backend, const PrecisionTraits& precision, GemmRow row, int runs, ContractionPeer& peer) {
  row.precision = precision.name;
  const bool trans_a = row.layout[0] == 't', trans_b = row.layout[1] == 't';
  const Array a = host_noise(trans_a ? Shape{row.k, row.m} : Shape{row.m, row.k}, precision.data, "a"),
              b = host_noise(trans_b ? Shape{row.n, row.k} : Shape{row.k, row.n}, precision.data, "b"),
              c = host_noise({row.m, row.n}, precision.data, "c");
  const Variable left("a", a, false), right("b", b, false), added("c", c, false);
  Step step(
      backend,
      [&](const Inputs&) {
        Tensor product = matmul(left, right, {.trans_a = trans_a, .trans_b = trans_b});
        if (row.alpha != 1) product = product * row.alpha;
        if (row.beta != 0) product = product + row.beta * added.value();
        return Outputs{{"result", cast(product, precision.data)}};
      },
      precision.policy);
  const std::vector<std::int64_t> positions = sampled_positions(row.m * row.n, kSamples);
  const std::vector<ExactSum> expected =
      expected_elements(row, a.to(Dtype::f32), b.to(Dtype::f32), c.to(Dtype::f32), positions);
  const Deviation deviation = deviation_at(step({}).at("result").array(), positions, expected, precision.rounding);
  row.error = deviation.error(), row.share = deviation.share();
  if (!(row.share <= 1))
    fail(Fault::non_finite, "gemm ", row.m, " x ", row.n, " x ", row.k, " ", row.layout, " ", row.precision,
         " is wrong: max|diff| / mean|ref| is ", row.error, ", ", row.share, " times the rounding error bound");
  row.time = time_for(backend, [&] { step({}); }, runs, {.least_ms = 0.3, .most = 50, .warm_seconds = 0.02});
  std::vector<ContractionPeer::Operand> operands{{a, trans_a}, {b, trans_b}};
  if (row.beta != 0) operands.push_back({c});
  row.peer = peer.time({{"op", "matmul"}, {"alpha", row.alpha}, {"beta", row.beta}}, precision, operands, positions,
                       expected, runs);
  return row;
}

std::vector<GemmRow> run_gemm(const GemmCommand& command) {
  Report report("gemm", command.json, command.csv);
  check_writable(command.plot);
  const std::shared_ptr<Backend> backend = make_backend(command.backend, command.threads);
  const bool is_cpu = backend->name() == "cpu";
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  ContractionPeer peer(command.peer, is_cpu);
  report.set("peer", peer.program());
  const double copy_rate = measure_copy_rate(*backend);
  report.set("copy_gigabytes_per_second", copy_rate);
  tell("{}peer: {}\n", facts_text(report.content()), peer.program());
  std::vector<std::string> precisions = command.precisions;
  if (precisions.empty())
    precisions = is_cpu ? std::vector<std::string>{"fp32"} : std::vector<std::string>{"fp16", "fp32"};
  std::vector<GemmRow> rows;
  for (const std::string& name : precisions) {
    const PrecisionTraits precision = precision_named(name);
    const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
    report.set("ceiling_tflops_" + name, ceiling);
    print_header();
    for (const GemmRow& wanted : wanted_rows(command, is_cpu)) {
      GemmRow row = time_gemm(*backend, precision, wanted, command.runs, peer);
      row.roofline_ms = std::max(row.tflops() * row.time.median / ceiling, bytes_of(row, precision) / copy_rate / 1e6);
      print_row(row);
      report.add_row(row);
      rows.push_back(std::move(row));
    }
  }
  write_file(command.plot, gemm_chart(report.content()));
  return rows;
}

}  // namespace nixie::benchmark
