// The grid: nervanagpu's small, odd and large sizes, linear layers of 1k to 4k over 16 to 128 images, and whole layers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>

#include "nixie/apps/benchmark/checks/reference.h"
#include "nixie/apps/benchmark/checks/terms.h"
#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/subjects/contraction_peer.h"
#include "nixie/apps/benchmark/subjects/distributions.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/formats.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"

namespace nixie::benchmark {
namespace {

constexpr std::int64_t kSamples = 64;

struct Gemm : Common {
  std::vector<std::int64_t> size = {};     ///< m, n, k; empty: the grid
  std::vector<std::string> operands = {};  ///< formats that operands are rounded to, each beside the precision itself
  std::vector<std::string> sums = {};      ///< the same for formats of accumulators
  int every = 32;                          ///< terms after which these are rounded
  ContractionPeerOptions peer = {{.seconds = 120}};
};

/// C [m, n] = alpha op(A) op(B) + beta C.
struct Product {
  std::string layout = {};  ///< nn, tn (A is stored transposed) or nt (B is)
  std::int64_t m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  bool trans_a() const { return layout[0] == 't'; }
  bool trans_b() const { return layout[1] == 't'; }
};

const Columns kColumns = with_peer({{"precision", -9, "precision"},
                                    {"m", 6, "m"},
                                    {"n", 5, "n"},
                                    {"k", 5, "k"},
                                    {"", 2, "layout"},
                                    {"alph", 4, "alpha"},
                                    {"beta", 4, "beta"},
                                    {"median us", 11, "ms", "{:.2f}", 1e3},
                                    {"(min - max)", -19, "ms", "({1:.2f} - {2:.2f})", 1e3},
                                    {"TFLOP/s", 8, "tflops", "{:.3f}"},
                                    {"% roof", 6, "percent_of_roofline", "{:.1f}"},
                                    {"error", 9, "error", "{:.1e}"}});

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

std::vector<Product> wanted_products(const Gemm& command, bool is_cpu) {
  constexpr double kMostOnCpu = 1e8;  // multiplications
  std::vector<Sizes> sizes = grid();
  if (!command.size.empty()) sizes = {{command.size[0], command.size[1], command.size[2]}};
  std::vector<Product> products;
  for (const auto& [m, n, k] : sizes) {
    const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    if (is_cpu && command.size.empty() && work > kMostOnCpu) continue;
    for (const char* layout : {"nn", "tn", "nt"}) products.push_back({.layout = layout, .m = m, .n = n, .k = k});
    products.push_back({.layout = "nn", .m = m, .n = n, .k = k, .alpha = 0.5, .beta = 0.5});
  }
  return products;
}

/// Elements of the result in double.
std::vector<ExactSum> expected_elements(const Product& product, const Array& a, const Array& b, const Array& c,
                                        const std::vector<std::int64_t>& positions) {
  const Elements left(a, product.trans_a()), right(b, product.trans_b()), added(c);
  std::vector<ExactSum> elements;
  for (const std::int64_t position : positions) {
    ExactSum& sum = elements.emplace_back();
    for_each_term(Matmul{}, {product.m, product.k}, {product.k, product.n}, {product.m, product.n}, position,
                  [&](std::int64_t i, std::int64_t j) { sum.add(product.alpha * left[i] * right[j]); });
    if (product.beta != 0) sum.add(product.beta * added[position]);
  }
  return elements;
}

/// Operands read once and the result written once.
double bytes_of(const Product& product, const PrecisionTraits& precision) {
  const auto& [layout, m, n, k, alpha, beta] = product;
  return static_cast<double>((m * k + k * n + (beta == 0 ? 1 : 2) * m * n) * size_of(precision.data));
}

/// The scale that a history of operands in [-0.5, 0.5) gives 8-bit formats.
constexpr float kScale = 0x1p-9F;

/// The precision where operands are rounded to 8 bits before: tensor cores keep about 14 bits of the sums of 128 terms.
PrecisionTraits of_stored(PrecisionTraits precision) {
  precision.rounding.product = 0x1p-17;
  return precision;
}

/// The precision where sums are rounded to a format.
PrecisionTraits with_sums(PrecisionTraits precision, const Format& format) {
  precision.rounding.accumulator = std::max(precision.rounding.accumulator, std::ldexp(0.5, -format.mantissa_bits));
  return precision;
}

/// Times and checks one product, in nixie and, of operands and sums as they are, in the peer. `format`: what operands
/// are rounded to in the timed step; empty: nothing.
nlohmann::json time_gemm(Backend& backend, const PrecisionTraits& precision, const Product& product,
                         const std::string& format, const Sums& sums, int runs, ContractionPeer& peer) {
  const auto& [layout, m, n, k, alpha, beta] = product;
  const Array a = host_noise(product.trans_a() ? Shape{k, m} : Shape{m, k}, precision.data, "a"),
              b = host_noise(product.trans_b() ? Shape{n, k} : Shape{k, n}, precision.data, "b"),
              c = host_noise({m, n}, precision.data, "c");
  const Variable left("a", a, false), right("b", b, false), added("c", c, false);
  const Variable scale("scale", Array::from(std::vector<float>{kScale}, {}), false);
  const auto operand = [&](const Tensor& x) {
    return format.empty() ? x : quantized_by(x, scale, format_named(format));
  };
  Step step(
      backend,
      [&](const Inputs&) {
        Tensor result = matmul(operand(left), operand(right),
                               {.trans_a = product.trans_a(), .trans_b = product.trans_b(), .sums = sums});
        if (product.alpha != 1) result = result * product.alpha;
        if (product.beta != 0) result = result + product.beta * added.value();
        return Outputs{{"result", cast(result, precision.data)}};
      },
      precision.policy);
  const std::vector<std::int64_t> positions = sampled_positions(m * n, kSamples);
  const auto multiplied = [&](const Variable& x, const Array& as_given) {
    return format.empty() ? as_given : evaluate(operand(x), backend).array();
  };
  const std::vector<ExactSum> expected =
      expected_elements(product, multiplied(left, a), multiplied(right, b), c, positions);
  const Deviation deviation = deviation_at(step({}).at("result").array(), positions, expected, precision.rounding);
  check_rounding(deviation, fmt::format("gemm {} x {} x {} {}", m, n, k, layout), precision);
  const Timing time = time_for(backend, [&] { step({}); }, runs, {.least_ms = 0.3, .most = 50, .warm_seconds = 0.02});
  std::vector<ContractionPeer::Operand> operands{{a, product.trans_a()}, {b, product.trans_b()}};
  if (beta != 0) operands.push_back({c});
  std::string name = format.empty() ? precision.name : precision.name + " " + format;
  if (sums.every > 0) name += fmt::format(" {}/{}", sums.merge->name, sums.every);
  nlohmann::json row{
      {"precision", name},
      {"layout", layout},
      {"m", m},
      {"n", n},
      {"k", k},
      {"alpha", alpha},
      {"beta", beta},
      {"ms", time},
      {"tflops", 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / time.median / 1e9},
      {"error", deviation.error()},
      {"share", deviation.share()}};
  if (!format.empty() || sums.every > 0) return row;
  set_peer(row, peer.time({{"op", "matmul"}, {"alpha", alpha}, {"beta", beta}}, precision, operands, positions,
                          expected, runs));
  return row;
}

void run(const Gemm& command) {
  Report report("gemm", command.files);
  const std::shared_ptr<Backend> backend = begin_report(report, command);
  ContractionPeer peer(command.peer, is_cpu(*backend));
  const double copy_rate = begin_rooflines(report, *backend, peer);
  for (const PrecisionTraits& precision : precisions_of(command.precisions, *backend)) {
    const double ceiling = measure_matmul_ceiling(*backend, precision.policy, precision.data);
    report.set("ceiling_tflops_" + precision.name, ceiling);
    report.print_header(kColumns);
    for (const Product& product : wanted_products(command, is_cpu(*backend))) {
      const auto add = [&](const PrecisionTraits& traits, const std::string& format, const Sums& sums = {}) {
        nlohmann::json row = time_gemm(*backend, traits, product, format, sums, command.runs, peer);
        set_roofline(row, bytes_of(product, traits), ceiling, copy_rate);
        report.add_row(row);
      };
      add(precision, "");
      for (const std::string& format : command.operands) add(of_stored(precision), format);
      for (const std::string& name : command.sums) {
        const Format format = format_named(name);
        add(with_sums(precision, format), "", sums_in(format, command.every));
      }
    }
  }
  report.complete();
}

}  // namespace

Subcommand add_gemm(CLI::App& app) {
  const auto command = std::make_shared<Gemm>();
  CLI::App* gemm = app.add_subcommand("gemm", "matrix products of many shapes and layouts, beside cuBLAS");
  add_machine(*gemm, command->machine);
  add_precisions(*gemm, command->precisions);
  gemm->add_option("--size", command->size, "m,n,k; a grid of sizes by default")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::Range(1, kMost));
  add_names(*gemm, "--operands", command->operands, {"e4m3", "e5m2"},
            "also with operands that the step rounds to these formats");
  gemm->add_option("--sums", command->sums, "also with sums that are rounded to these formats")->delimiter(',');
  gemm->add_option("--every", command->every, "terms after which these are rounded: 16, 32 or 64");
  add_runs(*gemm, command->runs);
  add_peer(*gemm, command->peer);
  add_files(*gemm, command->files);
  return {gemm, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
