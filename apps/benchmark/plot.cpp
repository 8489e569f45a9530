// Each chart takes the content of a report and keeps its facts as a subtitle.
#include "apps/benchmark/plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/benchmark/svg.h"

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

std::string compare_chart(const nlohmann::json& report) {
  BarChart chart{.title = "fprop + bprop of a batch, one run", .subtitle = subtitle(report), .unit = "ms, median"};
  for (const auto& row : report["rows"]) {
    const std::string group = fmt::format("{} x{} {}", row["net"].get<std::string>(), row["batch"].get<int>(),
                                          row["precision"].get<std::string>());
    bar(chart, group, "nixie") = row["total_ms"]["median"];
    for (const auto& peer : row["peers"])
      bar(chart, group, peer["peer"].get<std::string>()) = peer["total_ms"]["median"];
  }
  return svg_text(chart);
}

}  // namespace nixie::benchmark
