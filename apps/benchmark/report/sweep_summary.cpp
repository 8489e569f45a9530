// Ratios are sorted once; all else is read off.
#include "nixie/apps/benchmark/report/sweep_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "nixie/apps/benchmark/report/report.h"

namespace nixie::benchmark {
namespace {

constexpr std::size_t kWorst = 10;
constexpr int kPercents[] = {0, 5, 25, 50, 75, 95, 100};

double geometric_mean(const std::vector<double>& ratios) {
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return std::exp(sum / static_cast<double>(ratios.size()));
}

}  // namespace

nlohmann::json sweep_summary(const nlohmann::json& rows) {
  std::vector<std::pair<double, std::size_t>> sorted;
  std::map<std::string, std::vector<double>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].contains("ratio")) continue;
    const double ratio = rows[i]["ratio"];
    sorted.emplace_back(ratio, i);
    groups[fmt::format("{} {}", rows[i]["role"].get<std::string>(), rows[i]["kind"].get<std::string>())].push_back(
        ratio);
  }
  std::sort(sorted.begin(), sorted.end());
  nlohmann::json summary{{"rows", sorted.size()}, {"left_out", rows.size() - sorted.size()}};
  if (sorted.empty()) return summary;
  std::vector<double> ratios;
  for (const auto& [ratio, row] : sorted) ratios.push_back(ratio);
  summary["geometric_mean"] = geometric_mean(ratios);
  for (const int percent : kPercents)
    summary["quantiles"][fmt::format("{}%", percent)] =
        ratios[static_cast<std::size_t>(std::lround(percent / 100.0 * static_cast<double>(ratios.size() - 1)))];
  const auto above = [&](double bound) {
    return static_cast<double>(ratios.end() - std::lower_bound(ratios.begin(), ratios.end(), bound)) /
           static_cast<double>(ratios.size());
  };
  summary["share_above_0.9"] = above(0.9);
  summary["share_above_0.6"] = above(0.6);
  for (const auto& [name, each] : groups)
    summary["groups"][name] = {{"rows", each.size()}, {"geometric_mean", geometric_mean(each)}};
  for (std::size_t i = 0; i < std::min(kWorst, sorted.size()); ++i) summary["worst"].push_back(sorted[i].second);
  return summary;
}

std::string sweep_text(const nlohmann::json& rows) {
  const nlohmann::json summary = sweep_summary(rows);
  if (summary["rows"] == 0) return fmt::format("{} layers, no peer beside them\n", rows.size());
  std::string text =
      fmt::format("{} layers beside the peer ({} without it): geometric mean of the ratio {:.3f}; quantiles",
                  summary["rows"].get<int>(), summary["left_out"].get<int>(), summary["geometric_mean"].get<double>());
  for (const int percent : kPercents)
    text += fmt::format(" {}% {:.2f}", percent, summary["quantiles"][fmt::format("{}%", percent)].get<double>());
  text += fmt::format("; {:.1f} % at least 0.9, {:.1f} % at least 0.6\n\n",
                      100 * summary["share_above_0.9"].get<double>(), 100 * summary["share_above_0.6"].get<double>());
  nlohmann::json groups, worst;
  for (const auto& [name, group] : summary["groups"].items()) (groups.emplace_back(group))["name"] = name;
  for (const auto& position : summary["worst"]) worst.push_back(rows[position.get<std::size_t>()]);
  text += table_text({{"role, groups", -24, "name"}, {"layers", 6, "rows"}, {"mean", 6, "geometric_mean", "{:.2f}"}},
                     groups);
  return text + "\nThe ten worst:\n" +
         table_text({{"ratio", 5, "ratio", "{:.2f}"},
                     {"us", 9, "ms", "{:.1f}", 1e3},
                     {"peer us", 9, "peer.ms", "{:.1f}", 1e3},
                     {"role", -11, "role"},
                     {"layer", -78, "layer"},
                     {"algorithm", -1, "algorithm"}},
                    worst) +
         "ratio: the peer's time over nixie's; above 1 nixie is faster\n";
}

}  // namespace nixie::benchmark
