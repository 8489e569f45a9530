// Each chart takes the content of a report and keeps its facts as a subtitle.
#include "nixie/apps/benchmark/report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "nixie/apps/benchmark/report/svg.h"
#include "nixie/core/base/error.h"

namespace nixie::benchmark {
namespace {

std::string subtitle(const nlohmann::json& report) {
  const auto get = [&](const char* key) { return report.value(key, std::string("unknown")); };
  return fmt::format("{}, {}, commit {}", report.contains("device") ? get("device") : get("processor"),
                     get("date").substr(0, 10), get("commit"));
}

/// The value at a group of the series with this name, both made where they are new.
double& bar(BarChart& chart, const std::string& group, const std::string& series) {
  auto g = std::find(chart.groups.begin(), chart.groups.end(), group);
  if (g == chart.groups.end()) {
    for (auto& each : chart.series) each.values.push_back(0);
    g = chart.groups.insert(g, group);
  }
  auto s =
      std::find_if(chart.series.begin(), chart.series.end(), [&](const auto& each) { return each.name == series; });
  if (s == chart.series.end()) s = chart.series.insert(s, {series, std::vector<double>(chart.groups.size())});
  return s->values[static_cast<std::size_t>(g - chart.groups.begin())];
}

/// The points of the series with this name, made where it is new.
std::vector<std::pair<double, double>>& points(LineChart& chart, const std::string& name, bool is_line = true) {
  for (auto& series : chart.series)
    if (series.name == name) return series.points;
  return chart.series.emplace_back(LineChart::Series{name, {}, is_line}).points;
}

}  // namespace

std::string nets_chart(const nlohmann::json& report) {
  BarChart chart{.title = "fprop + bprop of a batch", .subtitle = subtitle(report), .unit = "ms, median"};
  for (const auto& row : report["rows"]) {
    const std::string group = fmt::format("{} x{} {}", row["net"].get<std::string>(), row["batch"].get<int>(),
                                          row["precision"].get<std::string>());
    bar(chart, group, "fprop") = row["fprop_ms"]["median"];
    bar(chart, group, "bprop") = row["bprop_ms"]["median"];
    bar(chart, group, "training step") = row["train_ms"]["median"];
  }
  return svg_text(chart);
}

std::string chart_of(const nlohmann::json& report) {
  const std::string command = report.at("command");
  if (command == "compare") return compare_chart(report);
  if (command == "arrays") return arrays_chart(report);
  if (command == "gemm") return gemm_chart(report);
  if (command == "layers") return layers_chart(report);
  if (command == "sweep") return sweep_chart(report);
  if (command == "scaling") return scaling_chart(report);
  if (command == "data" || command == "steps") fail(Fault::usage, "there is no chart of ", command);
  return nets_chart(report);
}

std::string compare_chart(const nlohmann::json& report) {
  BarChart chart{.title = "Forward and backward of a batch, each framework at its best, in one run",
                 .subtitle = subtitle(report),
                 .unit = "TFLOP/s; higher is better"};
  std::set<std::string> precisions;
  for (const auto& row : report["rows"]) precisions.insert(row["precision"]);
  if (precisions.size() == 1) chart.subtitle += ", " + *precisions.begin();
  for (const auto& row : report["rows"]) {
    const std::string net = row["net"],
                      group = precisions.size() == 1 ? net : net + " " + row["precision"].get<std::string>();
    const double gflop = row["counted_gflop"];
    bar(chart, group, "nixie") = gflop / row["total_ms"]["median"].get<double>();
    for (const auto& peer : row["peers"]) {
      const std::string name = peer["peer"];
      double& best = bar(chart, group, name.substr(0, name.find(' ')) == "torch" ? "PyTorch" : "JAX");
      best = std::max(best, gflop / peer["total_ms"]["median"].get<double>());
    }
  }
  return svg_text(chart);
}

std::string arrays_chart(const nlohmann::json& report) {
  LineChart chart{.title = "Bandwidth over array size",
                  .subtitle = subtitle(report),
                  .x_label = "elements (fp32)",
                  .y_label = "GB/s"};
  for (const auto& row : report["rows"]) {
    const std::string name = row["workload"];
    if (name.find("*=") == std::string::npos) continue;
    const double rate = row["gigabytes_per_second"], cpu_ms = row["cpu_ms"];
    points(chart, name).emplace_back(row["elements"].get<double>(), rate);
    if (cpu_ms > 0)
      points(chart, name + " on the CPU")
          .emplace_back(row["elements"].get<double>(), rate * row["ms"]["median"].get<double>() / cpu_ms);
  }
  return svg_text(chart);
}

std::string gemm_chart(const nlohmann::json& report) {
  LineChart chart{
      .title = "Matrix products", .subtitle = subtitle(report), .x_label = "FLOP of the product", .y_label = "TFLOP/s"};
  for (const auto& row : report["rows"])
    points(chart, fmt::format("{} {}", row["precision"].get<std::string>(), row["layout"].get<std::string>()), false)
        .emplace_back(2 * row["m"].get<double>() * row["n"].get<double>() * row["k"].get<double>(),
                      row["tflops"].get<double>());
  return svg_text(chart);
}

std::string layers_chart(const nlohmann::json& report) {
  LineChart chart{.title = "Layers under the roofline",
                  .subtitle = subtitle(report),
                  .x_label = "FLOP per byte that must be moved",
                  .y_label = "TFLOP/s"};
  const double copy_rate = report["copy_gigabytes_per_second"];
  double low = 1e9, high = 1;
  for (const auto& row : report["rows"]) {
    const double intensity = 1e3 * row["gflop"].get<double>() / row["megabytes"].get<double>();
    low = std::min(low, intensity), high = std::max(high, intensity);
    points(chart, fmt::format("{} {}", row["precision"].get<std::string>(), row["role"].get<std::string>()), false)
        .emplace_back(intensity, row["tflops"].get<double>());
    if (row["peer"].contains("ms"))
      points(chart, row["precision"].get<std::string>() + " PyTorch, any role", false)
          .emplace_back(intensity, row["gflop"].get<double>() / row["peer"]["ms"]["median"].get<double>());
  }
  for (const auto& [key, value] : report.items()) {
    if (key.rfind("ceiling_tflops_", 0) != 0) continue;
    const double ceiling = value, corner = 1e3 * ceiling / copy_rate;
    auto& roof = points(chart, key.substr(15) + " roofline");
    roof = {{low, low * copy_rate / 1e3}, {corner, ceiling}, {std::max(high, corner), ceiling}};
  }
  return svg_text(chart);
}

std::string sweep_chart(const nlohmann::json& report) {
  const nlohmann::json& rows = report["rows"];
  const bool has_peer = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.contains("ratio"); });
  LineChart chart{.title = "Random convolution layers",
                  .subtitle = subtitle(report),
                  .x_label = "FLOP of the layer",
                  .y_label = has_peer ? "times as fast as cuDNN" : "TFLOP/s"};
  double low = 1e30, high = 0;
  for (const auto& row : rows) {
    if (has_peer && !row.contains("ratio")) continue;
    const double gflop = row["gflop"];
    low = std::min(low, 1e9 * gflop), high = std::max(high, 1e9 * gflop);
    points(chart, row["role"].get<std::string>() + " " + row["kind"].get<std::string>(), false)
        .emplace_back(1e9 * gflop, has_peer ? row["ratio"].get<double>() : gflop / row["ms"]["median"].get<double>());
  }
  if (has_peer) points(chart, "as fast") = {{low, 1}, {high, 1}};
  return svg_text(chart);
}

std::string scaling_chart(const nlohmann::json& report) {
  LineChart chart{.title = "Cost as a net grows",
                  .subtitle = subtitle(report),
                  .x_label = "times the smallest",
                  .y_label = "fprop + bprop, ms"};
  for (const auto& row : report["rows"])
    points(chart, row["grows"].get<std::string>())
        .emplace_back(row["factor"].get<double>(), row["total_ms"]["median"].get<double>());
  return svg_text(chart);
}

}  // namespace nixie::benchmark
