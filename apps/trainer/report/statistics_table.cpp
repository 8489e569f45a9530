// A strip is as wide as the powers of two that any row has, so that all rows share an axis.
#include "nixie/apps/trainer/report/statistics_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nixie/apps/trainer/report/page.h"

namespace nixie {
namespace {

/// A cell's share of red: from 1e-8, the error of halves, to 1, where nothing is left.
double redness(double error) {
  return std::isnan(error) ? 1 : std::clamp(1 + std::log10(std::max(error, 1e-8)) / 8, 0.0, 1.0);
}

std::string red(double share) { return fmt::format("class=\"wrong\" style=\"--share:{:.2f}\"", 0.8 * share); }

std::string count_text(std::int64_t count, std::int64_t elements) {
  return count == 0 ? "0" : fmt::format("{:.2g}", static_cast<double>(count) / static_cast<double>(elements));
}

/// The first and the last power of two that any row has; nothing where none has a histogram.
std::pair<std::size_t, std::size_t> range_of(const std::vector<TensorStatistics>& rows) {
  std::size_t low = TensorStatistics::kExponents, high = 0;
  for (const TensorStatistics& row : rows)
    for (std::size_t i = 0; i < row.exponents.size(); ++i)
      if (row.exponents[i] > 0) low = std::min(low, i), high = std::max(high, i + 1);
  return {low, high};
}

std::string strip(const TensorStatistics& row, std::size_t low, std::size_t high) {
  constexpr double kBar = 5, kHeight = 18;
  const double most = static_cast<double>(std::ranges::max(row.exponents));
  std::string bars;
  for (std::size_t i = low; i < std::min(high, row.exponents.size()); ++i) {
    const double height = kHeight * std::sqrt(static_cast<double>(row.exponents[i]) / most);
    if (row.exponents[i] > 0)
      bars += fmt::format("<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.1f}\"/>",
                          kBar * static_cast<double>(i - low), kHeight - height, kBar - 1, height);
  }
  const double width = kBar * static_cast<double>(high - low);
  return fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" style=\"width:{0:.0f}px\" class=\"bars line-0\" role=\"img\" "
      "aria-label=\"exponents of {2} {3}\">{4}</svg>",
      width, kHeight, html_text(row.layer), row.role, bars);
}

}  // namespace

std::string error_text(double error) { return error == 0 ? "0" : fmt::format("{:.1e}", error); }

std::string error_cell(const FormatError& error) {
  return fmt::format("<td {} title=\"{:.2g} of the elements saturated, {:.2g} lost to 0\">{}</td>",
                     red(redness(error.error)), error.saturated, error.lost, error_text(error.error));
}

std::string statistics_html(const std::vector<TensorStatistics>& rows, const std::vector<std::string>& shadow) {
  if (rows.empty()) return {};
  const auto [low, high] = range_of(rows);
  std::string html = "<table class=\"confusion\">\n<tr>";
  for (const char* heading : {"layer", "role", "largest", "mean", "zeros", "saturated", "infinite", "NaN"})
    html += fmt::format("<th>{}</th>", heading);
  for (const std::string& format : shadow) html += fmt::format("<th>{}</th>", html_text(format));
  if (low < high)
    html += fmt::format("<th>2^{} to 2^{}</th>", TensorStatistics::kLowestExponent + static_cast<int>(low),
                        TensorStatistics::kLowestExponent + static_cast<int>(high));
  html += "</tr>\n";
  for (const TensorStatistics& row : rows) {
    html += fmt::format("<tr><th>{}</th><th>{}</th><td>{:.2g}</td><td>{:.2g}</td><td>{}</td>", html_text(row.layer),
                        row.role, row.largest, row.mean, count_text(row.zeros, row.elements));
    for (const std::int64_t count : {row.saturated, row.infinite, row.nan})
      html += fmt::format("<td {}>{}</td>", count > 0 ? red(1) : "", count_text(count, row.elements));
    for (const FormatError& error : row.formats) html += error_cell(error);
    if (low < high) html += "<td>" + (row.exponents.empty() ? "" : strip(row, low, high)) + "</td>";
    html += "</tr>\n";
  }
  return "<p>The values of the steps before the last row of training: largest and mean magnitude, and which share of "
         "them is zero, at the largest number of its format or beyond it, infinite, NaN" +
         std::string(shadow.empty() ? ""
                                    : "; what each format would have made of them: the sum of squared errors over "
                                      "the sum of squares") +
         std::string(low < high ? "; how many are in each power of two (heights are roots)" : "") +
         ".</p>\n<div class=\"wide\">" + html + "</table></div>\n";
}

}  // namespace nixie
