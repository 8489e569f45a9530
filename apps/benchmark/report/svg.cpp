// Draws with rectangles, lines and text alone; white ground, so that it reads on dark pages too.
#include "nixie/apps/benchmark/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nixie/apps/trainer/report/axis.h"
#include "nixie/apps/trainer/report/chart.h"

namespace nixie::benchmark {
namespace {

constexpr double kWidth = 880, kHeight = 440, kLeft = 70, kRight = 20, kTop = 64, kBottom = 78;
constexpr double kLetter = 6.6;  // the width of one, at most for most texts
constexpr const char* kColors[] = {"#1f6feb", "#8c959f", "#d29922", "#2da44e", "#cf222e", "#8250df",
                                   "#bf3989", "#57606a", "#00bcd4", "#7a4a1e", "#a4d65e", "#000000"};

/// Series beyond the colours have them again, hollow and dashed.
const char* color(std::size_t i) { return kColors[i % std::size(kColors)]; }
bool is_hollow(std::size_t i) { return i / std::size(kColors) % 2 == 1; }
std::string fill(std::size_t i) {
  return is_hollow(i) ? fmt::format("fill=\"#ffffff\" stroke=\"{}\" stroke-width=\"2\"", color(i))
                      : fmt::format("fill=\"{}\"", color(i));
}

double width_of(const std::string& text) { return kLetter * static_cast<double>(text.size()); }

std::string text_at(double x, double y, const std::string& text, const std::string& style = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, html_text(text));
}

std::string line_between(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, style);
}

std::string head(const std::string& title, const std::string& subtitle) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
             "font-family=\"sans-serif\" font-size=\"12\" fill=\"#24292f\">\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
             kWidth, kHeight) +
         text_at(kLeft, 24, title, "font-size=\"17\" font-weight=\"bold\"") +
         text_at(kLeft, 44, subtitle, "fill=\"#57606a\"");
}

/// In two lines where one is too short.
std::string legend(const std::vector<std::string>& names) {
  std::string text;
  double x = kLeft, y = kHeight - 32;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double width = 34 + width_of(names[i]);
    if (x + width > kWidth) x = kLeft, y += 18;
    text += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"11\" {}/>\n", x, y, fill(i));
    text += text_at(x + 16, y + 10, names[i]);
    x += width;
  }
  return text;
}

std::string number_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e4 || (size > 0 && size < 1e-4)) return fmt::format("{:.0e}", value);
  return fmt::format("{:g}", value);
}

/// From zero, or over whole powers of ten, as far as values are above zero.
Axis axis_over(double low, double high, double from, double to, bool is_log) {
  if (!is_log || !(low > 0)) return {std::min(0.0, low), std::max(high, low), from, to};
  const double first = std::floor(std::log10(low)), last = std::max(std::ceil(std::log10(high)), first + 1);
  return {std::pow(10, first), std::pow(10, last), from, to, true};
}

std::string y_marks(const Axis& axis, const std::string& label) {
  std::string text;
  for (const double mark : axis.marks()) {
    text += line_between(kLeft, axis(mark), kWidth - kRight, axis(mark), "stroke=\"#d0d7de\"");
    text += text_at(kLeft - 6, axis(mark) + 4, number_text(mark), "text-anchor=\"end\"");
  }
  return text + text_at(14, (kTop + kHeight - kBottom) / 2, label,
                        fmt::format("transform=\"rotate(-90 14 {:.1f})\" text-anchor=\"middle\"",
                                    (kTop + kHeight - kBottom) / 2));
}

}  // namespace

std::string svg_text(const BarChart& chart) {
  double most = 0;
  for (const auto& series : chart.series)
    for (const double value : series.values) most = std::max(most, value);
  const Axis y = axis_over(0, most > 0 ? most : 1, kHeight - kBottom, kTop, false);
  std::string text = head(chart.title, chart.subtitle) + y_marks(y, chart.unit);
  const double group_width =
      (kWidth - kLeft - kRight) / static_cast<double>(std::max<std::size_t>(1, chart.groups.size()));
  const double bar = 0.8 * group_width / static_cast<double>(std::max<std::size_t>(1, chart.series.size()));
  // Names that are wider than a group are in two rows in turn.
  const bool is_narrow =
      std::ranges::any_of(chart.groups, [&](const auto& name) { return width_of(name) > group_width; });
  const double second_row = is_narrow ? 32 : 18;
  for (std::size_t g = 0; g < chart.groups.size(); ++g) {
    const double start = kLeft + group_width * (static_cast<double>(g) + 0.1);
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
      const double value = chart.series[s].values[g], x = start + bar * static_cast<double>(s);
      if (!(value > 0)) continue;
      text += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}/>\n", x, y(value),
                          bar - 1, y(0) - y(value), fill(s));
      const std::string number = fmt::format("{:.3g}", value);
      const double size = std::min(10.0, 12 * bar / width_of(number));  // as wide as the bar
      text +=
          text_at(x + bar / 2, y(value) - 4, number, fmt::format("text-anchor=\"middle\" font-size=\"{:.3g}\"", size));
    }
    text += text_at(start + 0.4 * group_width, kHeight - kBottom + (g % 2 == 1 ? second_row : 18), chart.groups[g],
                    "text-anchor=\"middle\"");
  }
  std::vector<std::string> names;
  for (const auto& series : chart.series) names.push_back(series.name);
  return text + legend(names) + "</svg>\n";
}

std::string svg_text(const LineChart& chart) {
  double low_x = HUGE_VAL, high_x = -HUGE_VAL, low_y = HUGE_VAL, high_y = -HUGE_VAL;
  const auto is_shown = [&](double x, double y) {
    return std::isfinite(x) && std::isfinite(y) && (!chart.log_x || x > 0) && (!chart.log_y || y > 0);
  };
  for (const auto& series : chart.series)
    for (const auto& [px, py] : series.points) {
      if (!is_shown(px, py)) continue;
      low_x = std::min(low_x, px), high_x = std::max(high_x, px);
      low_y = std::min(low_y, py), high_y = std::max(high_y, py);
    }
  if (low_x > high_x) low_x = low_y = 1, high_x = high_y = 10;
  const Axis x = axis_over(low_x, high_x, kLeft, kWidth - kRight, chart.log_x),
             y = axis_over(low_y, high_y, kHeight - kBottom, kTop, chart.log_y);
  std::string text = head(chart.title, chart.subtitle) + y_marks(y, chart.y_label);
  for (const double mark : x.marks()) {
    text += line_between(x(mark), kTop, x(mark), kHeight - kBottom, "stroke=\"#eaeef2\"");
    text += text_at(x(mark), kHeight - kBottom + 16, number_text(mark), "text-anchor=\"middle\"");
  }
  text += text_at((kLeft + kWidth - kRight) / 2, kHeight - kBottom + 34, chart.x_label, "text-anchor=\"middle\"");
  std::vector<std::string> names;
  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    names.push_back(chart.series[s].name);
    std::string points;
    for (const auto& [px, py] : chart.series[s].points) {
      if (!is_shown(px, py)) continue;
      points += fmt::format("{:.1f},{:.1f} ", x(px), y(py));
      text += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" {}/>\n", x(px), y(py), fill(s));
    }
    if (chart.series[s].is_line)
      text += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", points,
                          color(s), is_hollow(s) ? " stroke-dasharray=\"6 4\"" : "");
  }
  return text + legend(names) + "</svg>\n";
}

}  // namespace nixie::benchmark
