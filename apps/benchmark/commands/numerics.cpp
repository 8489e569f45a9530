// `benchmark numerics`: how far products of f32 are from exact ones, for each policy and distribution of operands.
// Seven layers and products in all roles. The exact results, and the sums of magnitudes, are products of f64.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "nixie/apps/benchmark/command_line.h"
#include "nixie/apps/benchmark/commands/options.h"
#include "nixie/apps/benchmark/subjects/distributions.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"

namespace nixie::benchmark {
namespace {

constexpr std::array<const char*, 3> kRoles = {"y", "dx", "dw"};

// The largest over all results of all layers and roles, and the median over these of the largest of each.
const Columns kColumns{{"precision", -10, "precision"},
                       {"operands", -26, "distribution"},
                       {"largest", 9, "largest", "{:.3g}"},
                       {"(median)", 9, "median", "({:.2g})"},
                       {"  where", -1, "where", "  {}"}};

// x and w, which are multiplied.
struct Layer {
  std::string name;
  Shape x, w;
  std::function<Tensor(const Tensor&, const Tensor&)> multiply;
};

std::vector<Layer> layers(bool is_cpu) {
  const std::int64_t n = is_cpu ? 1 : 16, by = is_cpu ? 2 : 1;  // a CPU gets layers of half the width and size
  const auto layer = [](const ConvOptions& options) {
    return [options](const Tensor& x, const Tensor& w) { return conv(x, w, options); };
  };
  const auto product = [](const Tensor& x, const Tensor& w) { return matmul(x, w, {.trans_b = true}); };
  return {{"3x3, 128 channels", {n, 128, 28 / by, 28 / by}, {128, 128, 3, 3}, layer({.pad = {1}})},
          {"3x3, 512 channels", {n, 512 / by, 14 / by, 14 / by}, {512 / by, 512 / by, 3, 3}, layer({.pad = {1}})},
          {"1x1", {n, 256, 28 / by, 28 / by}, {512, 256, 1, 1}, layer({})},
          {"7x7, stride 2", {n, 3, 112 / by, 112 / by}, {64, 3, 7, 7}, layer({.stride = {2}, .pad = {3}})},
          {"32 groups", {n, 512, 14 / by, 14 / by}, {512, 16, 3, 3}, layer({.pad = {1}, .groups = 32})},
          {"linear", {1024 / by, 4096 / by}, {1024 / by, 4096 / by}, product},
          {"odd linear", {300, 700}, {500, 700}, product}};
}

// y and the gradients of x and w for a gradient dy of y.
class Roles {
 public:
  Roles(Backend& backend, const Layer& layer, PrecisionPolicy precision)
      : step_(
            backend,
            [&layer](const Inputs& in) {
              const Tensor y = layer.multiply(in["x"], in["w"]);
              const std::vector<Tensor> slopes = gradients(sum(y * in["dy"]), std::vector<Tensor>{in["x"], in["w"]});
              return Outputs{{kRoles[0], y}, {kRoles[1], slopes[0]}, {kRoles[2], slopes[1]}};
            },
            precision) {}
  std::array<std::vector<double>, 3> operator()(const std::array<Array, 3>& operands) {
    const Outputs found = step_({{"x", operands[0]}, {"w", operands[1]}, {"dy", operands[2]}});
    std::array<std::vector<double>, 3> values;
    for (std::size_t i = 0; i < 3; ++i) values[i] = found.at(kRoles[i]).to_vector<double>();
    return values;
  }

 private:
  Step step_;
};

std::array<Array, 3> in_f64(const std::array<Array, 3>& operands, bool magnitudes) {
  std::array<Array, 3> exact;
  for (std::size_t i = 0; i < 3; ++i) {
    exact[i] = operands[i].to(Dtype::f64);
    if (magnitudes)
      for (double& x : exact[i].data<double>()) x = std::abs(x);
  }
  return exact;
}

double largest_error(const std::vector<double>& found, const std::vector<double>& exact,
                     const std::vector<double>& magnitudes) {
  double largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i]))
      fail(Fault::non_finite, "element ", i, " of a result is ", found[i], ", expected ", exact[i]);
    const double error = std::abs(found[i] - exact[i]);
    if (error > 0) largest = std::max(largest, error / magnitudes[i]);
  }
  return largest * 0x1p24;
}

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void run(const Common& command) {
  Report report("numerics", command.files);
  const std::shared_ptr<Backend> backend = begin_report(report, command);
  const std::vector<PrecisionTraits> precisions = precisions_of(command.precisions, *backend, {"ieee", "fp32", "tf32"});
  tell(
      "|y - exact| / sum |a||b| in units of 2^-24: the largest of all results, in brackets the median over layers and "
      "roles of the largest\n\n");

  const std::vector<Distribution> drawn = distributions();
  // By precision and distribution; errors of every layer and role.
  std::vector<std::vector<std::vector<std::pair<double, std::string>>>> errors(
      precisions.size(), std::vector<std::vector<std::pair<double, std::string>>>(drawn.size()));
  for (const Layer& layer : layers(is_cpu(*backend))) {
    Roles exact(*backend, layer, PrecisionPolicy::ieee);
    std::vector<std::unique_ptr<Roles>> tried;
    for (const PrecisionTraits& precision : precisions)
      tried.push_back(std::make_unique<Roles>(*backend, layer, precision.policy));
    const Shape y = layer.multiply(Tensor(Array(Dtype::f32, layer.x)), Tensor(Array(Dtype::f32, layer.w))).shape();
    for (std::size_t d = 0; d < drawn.size() && !stop_is_requested(); ++d) {
      const std::array<Array, 3> operands{drawn[d].draw(layer.x, 1), drawn[d].draw(layer.w, 2), drawn[d].draw(y, 3)};
      const auto expected = exact(in_f64(operands, false)), magnitudes = exact(in_f64(operands, true));
      for (std::size_t p = 0; p < precisions.size(); ++p) {
        const auto found = (*tried[p])(operands);
        for (std::size_t role = 0; role < kRoles.size(); ++role)
          errors[p][d].emplace_back(largest_error(found[role], expected[role], magnitudes[role]),
                                    fmt::format("{}, {}", layer.name, kRoles[role]));
      }
    }
  }

  report.print_header(kColumns);
  for (std::size_t p = 0; p < precisions.size(); ++p)
    for (std::size_t d = 0; d < drawn.size(); ++d) {
      if (errors[p][d].empty()) continue;
      const auto& [largest, where] = *std::max_element(errors[p][d].begin(), errors[p][d].end());
      std::vector<double> all;
      for (const auto& [error, of] : errors[p][d]) all.push_back(error);
      report.add_row({{"precision", precisions[p].name},
                      {"distribution", drawn[d].name},
                      {"largest", largest},
                      {"where", where},
                      {"median", median_of(all)}});
    }
}

}  // namespace

Subcommand add_numerics(CLI::App& app) {
  const auto command = std::make_shared<Common>();
  CLI::App* numerics =
      add_command(app, "numerics", "the error of products of f32 over distributions of operands, beside f64");
  add_names(*numerics, "--precision", command->precisions, {"ieee", "fp32", "tf32"},
            "by default all on a GPU, fp32 on a CPU");
  add_machine(*numerics, command->machine);
  add_files(*numerics, command->files, true, false);
  return {numerics, [command] { run(*command); }};
}

}  // namespace nixie::benchmark
