// Seven layers and products in all roles. The exact results, and the sums of magnitudes, are products of f64.
#include "nixie/apps/benchmark/commands/numerics_command.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/apps/benchmark/report/json_rows.h"
#include "nixie/apps/benchmark/report/report.h"
#include "nixie/apps/benchmark/subjects/distributions.h"
#include "nixie/apps/trainer/machine.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/program/signals.h"
#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"

namespace nixie::benchmark {
namespace {

constexpr std::array<const char*, 3> kRoles = {"y", "dx", "dw"};

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

}  // namespace

std::vector<NumericsRow> run_numerics(const NumericsCommand& command) {
  Report report("numerics", command.json, command.csv);
  const std::shared_ptr<Backend> backend = make_backend(command.backend, command.threads);
  const bool is_cpu = backend->name() == "cpu";
  report.set_all(device_facts(*backend, machine_text(*backend, command.threads)));
  std::vector<std::string> precisions = command.precisions;
  if (precisions.empty())
    precisions = is_cpu ? std::vector<std::string>{"fp32"} : std::vector<std::string>{"ieee", "fp32", "tf32"};
  tell(
      "{}|y - exact| / sum |a||b| in units of 2^-24: the largest of all results, in brackets the median over layers "
      "and "
      "roles of the largest\n\n",
      facts_text(report.content()));

  const std::vector<Distribution> drawn = distributions();
  // By precision and distribution; errors of every layer and role.
  std::vector<std::vector<std::vector<std::pair<double, std::string>>>> errors(
      precisions.size(), std::vector<std::vector<std::pair<double, std::string>>>(drawn.size()));
  for (const Layer& layer : layers(is_cpu)) {
    Roles exact(*backend, layer, PrecisionPolicy::ieee);
    std::vector<std::unique_ptr<Roles>> tried;
    for (const std::string& name : precisions)
      tried.push_back(std::make_unique<Roles>(*backend, layer, nixie::precision_named(name)));
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

  std::vector<NumericsRow> rows;
  tell("{:<10} {:<26} {:>9} {:>9}   {}\n", "precision", "operands", "largest", "(median)", "where");
  for (std::size_t p = 0; p < precisions.size(); ++p)
    for (std::size_t d = 0; d < drawn.size(); ++d) {
      if (errors[p][d].empty()) continue;
      const auto& [largest, where] = *std::max_element(errors[p][d].begin(), errors[p][d].end());
      std::vector<double> all;
      for (const auto& [error, of] : errors[p][d]) all.push_back(error);
      rows.push_back({precisions[p], drawn[d].name, largest, where, median_of(all)});
      tell("{:<10} {:<26} {:>9.3g} {:>9}   {}\n", rows.back().precision, rows.back().distribution, largest,
           fmt::format("({:.2g})", rows.back().median), where);
      report.add_row(rows.back());
    }
  return rows;
}

}  // namespace nixie::benchmark
