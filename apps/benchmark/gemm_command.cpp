// The grid: nervanagpu's small, odd and large sizes, and the skinny products of linear layers.
#include "apps/benchmark/gemm_command.h"

#include <array>
#include <cmath>

#include "apps/benchmark/facts.h"
#include "apps/benchmark/json_rows.h"
#include "apps/benchmark/plot.h"
#include "apps/benchmark/reference.h"
#include "apps/benchmark/report.h"
#include "apps/trainer/machine.h"
#include "core/ops.h"
#include "core/random.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 64;

const std::vector<std::array<std::int64_t, 3>> kGrid = {
    {1, 1, 1},          {2, 3, 4},         {7, 9, 5},        {16, 32, 64},       {64, 65, 72},       {120, 127, 128},
    {192, 192, 192},    {784, 512, 256},   {779, 787, 793},  {1024, 1024, 1024}, {1533, 1533, 1533}, {4095, 4095, 4095},
    {4096, 4096, 4096}, {3072, 128, 3072}, {1, 4096, 4096},  {16, 4096, 4096},   {32, 4096, 4096},   {128, 4096, 4096},
    {128, 1000, 4096},  {128, 4096, 9216}, {64, 4096, 25088}};

double element(const Array& array, std::int64_t row, std::int64_t column, bool is_transposed) {
  const std::int64_t width = array.shape()[1];
  const std::int64_t position = is_transposed ? column * width + row : row * width + column;
  return static_cast<double>(array.data<float>()[static_cast<std::size_t>(position)]);
}

double error_of(const GemmRow& row, const Array& a, const Array& b, const Array& c, const Array& result) {
  Deviation deviation;
  for (const std::int64_t position : sampled_positions(result.size(), kSamples)) {
    const std::int64_t i = position / row.n, j = position % row.n;
    double sum = 0;
    for (std::int64_t k = 0; k < row.k; ++k)
      sum += element(a, i, k, row.layout[0] == 't') * element(b, k, j, row.layout[1] == 't');
    const double found = element(result, i, j, false);
    deviation.is_finite = deviation.is_finite && std::isfinite(found);
    deviation.add(found, row.alpha * sum + row.beta * element(c, i, j, false));
  }
  return deviation.error();
}

void print_row(const GemmRow& row) {
  fmt::print("{:<9} {:>5} x {:>5} x {:>5} {:>3} {:>4} {:>4} {:>11.2f} ({:.2f} - {:.2f}) {:>8.3f} {:>9.1e}\n",
             row.precision, row.m, row.n, row.k, row.layout, row.alpha, row.beta, 1e3 * row.time.median,
             1e3 * row.time.min, 1e3 * row.time.max, row.tflops(), row.error);
  std::fflush(stdout);
}

std::vector<GemmRow> wanted_rows(const GemmCommand& command, bool is_cpu) {
  constexpr double kMostOnCpu = 1e9;  // multiplications
  std::vector<std::array<std::int64_t, 3>> sizes = kGrid;
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

}  // namespace

GemmRow time_gemm(Backend& backend, const PrecisionTraits& precision, GemmRow row, int runs) {
  row.precision = precision.name;
  row.bound = precision.element_bound;
  const bool trans_a = row.layout[0] == 't', trans_b = row.layout[1] == 't';
  const auto draw = [&](std::int64_t rows, std::int64_t columns, const char* purpose) {
    return cast(uniform({rows, columns}, random_stream(1, purpose)) - 0.5, precision.data);
  };
  const std::vector<Tensor> stored =
      evaluate({trans_a ? draw(row.k, row.m, "a") : draw(row.m, row.k, "a"),
                trans_b ? draw(row.n, row.k, "b") : draw(row.k, row.n, "b"), draw(row.m, row.n, "c")},
               backend);
  Step step(
      backend,
      [&](const Inputs& in) {
        Tensor product = matmul(in["a"], in["b"], {.trans_a = trans_a, .trans_b = trans_b});
        if (row.alpha != 1) product = product * row.alpha;
        if (row.beta != 0) product = product + row.beta * in["c"];
        return Outputs{{"result", cast(product, precision.data)}};
      },
      precision.policy);
  std::map<std::string, Tensor> inputs{{"a", stored[0]}, {"b", stored[1]}};
  if (row.beta != 0) inputs["c"] = stored[2];
  const auto host = [](const Tensor& x) { return x.array().to(Dtype::f32); };
  row.error = error_of(row, host(stored[0]), host(stored[1]), host(stored[2]), host(step(inputs).at("result")));
  if (!(row.error <= row.bound))
    fail(Fault::non_finite, "gemm ", row.m, " x ", row.n, " x ", row.k, " ", row.layout, " ", row.precision,
         " is wrong: max|diff| / mean|ref| is ", row.error, ", at most ", row.bound, " is right");
  row.time = time_for(backend, [&] { step(inputs); }, runs, {.least_ms = 0.3, .most = 50, .warm_seconds = 0.02});
  return row;
}

std::vector<GemmRow> run_gemm(const GemmCommand& command) {
  Report report("gemm", command.json, command.csv);
  check_writable(command.plot);
  const std::shared_ptr<Backend> backend = open_backend(command.backend, command.threads);
  const bool is_cpu = backend->name() == "cpu";
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  fmt::print("{}{:<9} {:>21} {:>3} {:>4} {:>4} {:>11} {:<15} {:>8} {:>9}\n", facts_text(report.content()), "precision",
             "m x n x k", "", "alph", "beta", "median us", "(min - max)", "TFLOP/s", "error");
  std::vector<std::string> precisions = command.precisions;
  if (precisions.empty())
    precisions = is_cpu ? std::vector<std::string>{"fp32"} : std::vector<std::string>{"fp16", "fp32"};
  std::vector<GemmRow> rows;
  for (const std::string& precision : precisions)
    for (const GemmRow& row : wanted_rows(command, is_cpu)) {
      rows.push_back(time_gemm(*backend, precision_named(precision), row, command.runs));
      print_row(rows.back());
      report.add_row(rows.back());
    }
  report.write();
  write_file(command.plot, gemm_chart(report.content()));
  return rows;
}

}  // namespace nixie::benchmark
