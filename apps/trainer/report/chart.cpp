// Chart: lines thinned out, marks, a legend.
#include "nixie/apps/trainer/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/report/axis.h"

namespace nixie {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr double kWidth = 440, kHeight = 240, kLeft = 58, kRight = 12, kTop = 12, kBottom = 40;
constexpr std::size_t kMostPoints = 400;

std::string number_text(double value) {
  const double size = std::abs(value);
  if (size < 1e-12) return "0";
  if (size >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

/// The middle of a text at `middle`, moved so that the drawing's right edge cuts nothing off.
double inside(double middle, const std::string& text) {
  constexpr double kWidest = 8;  // of a digit, in the larger letters of a phone
  return std::min(middle, kWidth - kWidest / 2 * static_cast<double>(text.size()));
}

Points thinned(const Points& points) {
  Points finite;
  for (const auto& point : points)
    if (std::isfinite(point.first) && std::isfinite(point.second)) finite.push_back(point);
  if (finite.size() <= kMostPoints) return finite;
  Points result;
  for (std::size_t i = 0; i < kMostPoints; ++i) {
    const std::size_t begin = i * finite.size() / kMostPoints, end = (i + 1) * finite.size() / kMostPoints;
    double x = 0, y = 0;
    for (std::size_t k = begin; k < end; ++k) x += finite[k].first, y += finite[k].second;
    result.emplace_back(x / static_cast<double>(end - begin), y / static_cast<double>(end - begin));
  }
  result.back() = finite.back();
  return result;
}

std::string drawn(const std::vector<Points>& lines, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double mark : y.marks())
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" class=\"end\">{}</text>\n",
        kLeft, y(mark), kWidth - kRight, kLeft - 6, y(mark) + 4, number_text(mark));
  for (const double mark : x.marks())
    if (x(mark) <= kWidth - kRight + 1)
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"middle\">{}</text>\n",
                         inside(x(mark), number_text(mark)), kHeight - kBottom + 16, number_text(mark));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    std::string path;
    for (const auto& [px, py] : lines[i])
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(px), y(py));
    svg += fmt::format(
        "<path class=\"line line-{}\" d=\"{}\"/><circle class=\"dot line-{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n",
        i, path, i, x(lines[i].back().first), y(lines[i].back().second));
  }
  return svg;
}

}  // namespace

std::string html_text(const std::string& text) {
  std::string result;
  for (const char letter : printable(text)) switch (letter) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  return result;
}

std::string chart_html(const Chart& chart) {
  std::vector<Points> lines;
  std::string legend;
  double low_x = chart.has_log_x ? HUGE_VAL : 0, high_x = -HUGE_VAL, low_y = HUGE_VAL, high_y = -HUGE_VAL;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    lines.push_back(thinned(chart.series[i].points));
    for (const auto& [x, y] : lines.back()) {
      low_x = std::min(low_x, x), high_x = std::max(high_x, x);
      low_y = std::min(low_y, y), high_y = std::max(high_y, y);
    }
    if (lines.back().empty()) continue;
    legend += fmt::format("<span class=\"key\"><i class=\"line-{}\"></i>{} <b>{:.4g}</b></span>\n", i,
                          html_text(chart.series[i].name), lines.back().back().second);
  }
  if (low_x > high_x) return {};
  using Scale = Chart::Scale;
  if (chart.scale == Scale::from_zero) low_y = std::min(low_y, 0.0);
  if (chart.scale == Scale::share) high_y = std::min(high_y, 1.0);
  const Axis x(low_x, high_x, kLeft, kWidth - kRight, chart.has_log_x);
  const Axis y(low_y, high_y, kHeight - kBottom, kTop, chart.scale == Scale::wide && low_y > 0 && high_y / low_y > 100);
  return fmt::format(
      "<figure><figcaption>{}</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}"
      "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"middle\">{}</text>\n</svg>\n<div>{}</div></figure>\n",
      html_text(chart.title), kWidth, kHeight, html_text(chart.title), drawn(lines, x, y),
      (kLeft + kWidth - kRight) / 2, kHeight - 6, html_text(chart.x_label), legend);
}

}  // namespace nixie
