// Chart: lines thinned out, marks, points with names, a legend. Bars of a histogram are as high as the square root of
// their share, so that tails show beside a peak.
#include "nixie/apps/trainer/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "nixie/apps/trainer/report/page.h"

namespace nixie {
namespace {

constexpr double kTolerance = 1e-9;  // of a step: a mark at the end of the axis is one
constexpr double kFewPowers = 2;     // of ten, between which 2 and 5 are marked as well

/// One of 1, 2 or 5 times a power of ten, so that about five of them make `span`.
double nice_step(double span) {
  const double power = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (span / (factor * power) <= 6) return factor * power;
  return 10 * power;
}

/// Maps values to positions of a drawing, and chooses its ticks.
class Axis {
 public:
  /// Values from `low` to `high` at positions `from` to `to`. The ends of a linear axis move out to round numbers, and
  /// one value alone is in its middle; those of a logarithmic one, which are above zero, stay. Marks are at 1, 2 or 5
  /// times a power of ten, some five of them, or at powers of ten where there are several of these.
  Axis(double low, double high, double from, double to, bool is_log = false);
  double operator()(double value) const;
  const std::vector<double>& marks() const { return marks_; }

 private:
  double low_ = 0, high_ = 1, from_, to_;
  bool is_log_;
  std::vector<double> marks_;
};

Axis::Axis(double low, double high, double from, double to, bool is_log) : from_(from), to_(to), is_log_(is_log) {
  if (is_log_) {
    low_ = std::log10(low), high_ = std::log10(high);
    for (double power = std::floor(low_); power <= high_ + kTolerance; ++power)
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double place = power + std::log10(factor);
        if (place < low_ - kTolerance || place > high_ + kTolerance) continue;
        if (factor == 1 || high_ - low_ < kFewPowers) marks_.push_back(factor * std::pow(10, power));
      }
    return;
  }
  if (!(high > low)) {
    const double room = std::max(std::abs(low) / 2, 1e-12);
    low -= room, high += room;
  }
  const double step = nice_step(high - low);
  low_ = step * std::floor(low / step + kTolerance), high_ = step * std::ceil(high / step - kTolerance);
  for (double i = 0; low_ + i * step <= high_ + step / 2; ++i) marks_.push_back(low_ + i * step);
}

double Axis::operator()(double value) const {
  return from_ + (to_ - from_) * ((is_log_ ? std::log10(value) : value) - low_) / (high_ - low_);
}

using Points = std::vector<std::pair<double, double>>;

constexpr double kWidth = 440, kHeight = 250, kLeft = 58, kRight = 12, kTop = 12, kBottom = 50;
constexpr std::size_t kMostPoints = 400, kMostNamed = 24;
constexpr double kNearOne = 0.9;  // shares above this differ in what is missing to 1

std::string number_text(double value) {
  const double size = std::abs(value);
  if (size < 1e-12) return "0";
  if (size >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:.5g}", value);
}

/// Four digits, and all of those before the point.
std::string value_text(double value) {
  return std::abs(value) < 1e4 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
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

/// The axis of the values: linear, logarithmic, or logarithmic in 1 - value.
class Heights {
 public:
  Heights(const std::vector<Points>& lines, Chart::Scale scale) {
    double low = HUGE_VAL, high = -HUGE_VAL, least_missing = HUGE_VAL;
    for (const Points& line : lines)
      for (const auto& [x, y] : line) {
        low = std::min(low, y), high = std::max(high, y);
        if (y < 1) least_missing = std::min(least_missing, 1 - y);
      }
    if (scale == Chart::Scale::from_zero) low = std::min(low, 0.0);
    if (scale == Chart::Scale::share) high = std::min(high, 1.0);
    is_missing_ = scale == Chart::Scale::share && high > kNearOne && low < high;
    if (is_missing_) {
      least_ = high < 1 ? least_missing : least_missing / 2;  // where all of it is right: above all others
      axis_ = Axis(least_, std::max(1 - low, 2 * least_), kTop, kHeight - kBottom, true);
    } else {
      axis_ = Axis(low, high, kHeight - kBottom, kTop, scale == Chart::Scale::wide && low > 0 && high / low > 100);
    }
  }
  double operator()(double value) const { return axis_(is_missing_ ? std::max(1 - value, least_) : value); }
  /// The values that are marked, and their places.
  std::vector<std::pair<double, double>> marks() const {
    std::vector<std::pair<double, double>> marks;
    for (const double mark : axis_.marks()) marks.emplace_back(is_missing_ ? 1 - mark : mark, axis_(mark));
    return marks;
  }
  bool is_missing() const { return is_missing_; }

 private:
  bool is_missing_ = false;
  double least_ = 0;
  Axis axis_{0, 1, 0, 1};
};

/// A mark below the drawing, moved so that the right edge cuts nothing off.
std::string mark_below(double x, double y, double value) {
  constexpr double kWidest = 8;  // of a digit, in the larger letters of a phone
  const std::string text = number_text(value);
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"middle\">{}</text>\n",
                     std::min(x, kWidth - kWidest / 2 * static_cast<double>(text.size())), y, text);
}

std::string marks_below(const Chart& chart, const Axis& x, double high_x) {
  constexpr double kFirst = kHeight - kBottom + 22, kSecond = kHeight - kBottom + 41;
  std::string svg;
  for (const double mark : x.marks())
    if (x(mark) <= kWidth - kRight + 1) svg += mark_below(x(mark), kFirst, mark);
  if (chart.steps_per_epoch <= 0)
    return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"middle\">{}</text>\n",
                             (kLeft + kWidth - kRight) / 2, kSecond, html_text(chart.x_label));
  const Axis epochs(0, high_x / chart.steps_per_epoch, 0, 1);
  for (const double epoch : epochs.marks())
    if (epoch > 0 && x(epoch * chart.steps_per_epoch) <= kWidth - kRight + 1)
      svg += mark_below(x(epoch * chart.steps_per_epoch), kSecond, epoch);
  for (const auto& [name, y] : {std::pair{"step", kFirst}, {"epoch", kSecond}})
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"name\">{}</text>\n", kLeft - 8, y, name);
  return svg;
}

/// `training: 0.25 at step 100, epoch 1.6`
std::string point_name(const Chart& chart, const std::string& series, double x, double y) {
  const std::string epoch =
      chart.steps_per_epoch > 0 ? fmt::format(", epoch {:.3g}", x / chart.steps_per_epoch) : std::string();
  return html_text(fmt::format("{}: {} at {} {:.6g}{}", series, value_text(y), chart.x_label, x, epoch));
}

std::string line_svg(const Chart& chart, std::size_t i, const Points& points, const Axis& x, const Heights& y) {
  if (points.empty()) return {};
  std::string path, spots;
  for (const auto& [px, py] : points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(px), y(py));
  const std::size_t named = std::min(points.size(), kMostNamed);
  for (std::size_t k = 1; k <= named; ++k) {
    const auto& [px, py] = points[k * points.size() / named - 1];
    spots += fmt::format("<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"{}\"><title>{}</title></circle>\n", x(px), y(py),
                         k == named ? 3 : 5, point_name(chart, chart.series[i].name, px, py));
  }
  return fmt::format("<g class=\"line-{0}\"><path class=\"line line-{0}\" d=\"{1}\"/>\n{2}</g>\n", i, path, spots);
}

}  // namespace

std::string chart_html(const Chart& chart) {
  std::vector<Points> lines;
  std::string legend, last;
  double low_x = chart.has_log_x ? HUGE_VAL : 0, high_x = -HUGE_VAL;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::string name = html_text(chart.series[i].name);
    lines.push_back(thinned(chart.series[i].points));
    if (lines.back().empty()) continue;
    for (const auto& [x, y] : lines.back()) low_x = std::min(low_x, x), high_x = std::max(high_x, x);
    const std::string value = value_text(lines.back().back().second);
    legend += fmt::format("<span class=\"key\"><i class=\"line-{}\"></i>{} <b>{}</b></span>\n", i, name, value);
    last += fmt::format("{}{} {}", last.empty() ? "" : ", ", name, value);
  }
  if (low_x > high_x) return {};
  const Axis x(low_x, high_x, kLeft, kWidth - kRight, chart.has_log_x);
  const Heights y(lines, chart.scale);
  std::string drawn;
  for (const auto& [value, place] : y.marks())
    drawn += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" class=\"end\">{}</text>\n",
        kLeft, place, kWidth - kRight, kLeft - 6, place + 4, number_text(value));
  drawn += marks_below(chart, x, high_x);
  for (std::size_t i = 0; i < lines.size(); ++i) drawn += line_svg(chart, i, lines[i], x, y);
  return fmt::format(
      "<figure><figcaption>{}{}</figcaption>\n<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}: at the end "
      "{}\">\n"
      "{}</svg>\n<div>{}</div></figure>\n",
      html_text(chart.title), y.is_missing() ? "<small> (the error is logarithmic)</small>" : "", kWidth, kHeight,
      html_text(chart.title), last, drawn, legend);
}

std::string charts_html(std::vector<Chart> charts, double steps_per_epoch) {
  std::string text;
  for (Chart& chart : charts) {
    chart.steps_per_epoch = steps_per_epoch;
    text += chart_html(chart);
  }
  return "<div class=\"charts\">\n" + text + "</div>\n";
}

Histogram histogram_of(const std::string& name, std::span<const float> values, int bins) {
  Histogram result{
      .name = name, .low = std::numeric_limits<double>::infinity(), .high = -std::numeric_limits<double>::infinity()};
  double sum = 0, count = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++result.not_finite;
      continue;
    }
    result.low = std::min<double>(result.low, value);
    result.high = std::max<double>(result.high, value);
    sum += value, ++count;
  }
  if (count == 0) return {.name = name, .not_finite = result.not_finite};
  result.mean = sum / count;
  result.counts.resize(static_cast<std::size_t>(bins));
  const double range = result.high - result.low, per_bin = range > 0 ? bins / range : 0;
  double squares = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    squares += (value - result.mean) * (value - result.mean);
    const auto bin = static_cast<std::size_t>((value - result.low) * per_bin);
    ++result.counts[std::min(bin, result.counts.size() - 1)];
  }
  result.deviation = std::sqrt(squares / count);
  return result;
}

std::string histogram_html(const Histogram& histogram) {
  constexpr double kWide = 240, kHigh = 70;
  const std::int64_t most =
      histogram.counts.empty() ? 1 : *std::max_element(histogram.counts.begin(), histogram.counts.end());
  std::string bars;
  const double width = kWide / static_cast<double>(std::max<std::size_t>(histogram.counts.size(), 1));
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double height = kHigh * std::sqrt(static_cast<double>(histogram.counts[i]) / static_cast<double>(most));
    if (height > 0)
      bars += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                          width * static_cast<double>(i), kHigh - height, width - 0.5, height);
  }
  const std::string others = histogram.not_finite > 0 ? fmt::format(", {} not finite", histogram.not_finite) : "";
  return fmt::format(
      "<figure><figcaption>{}</figcaption><span class=\"soft\">mean {:.3g}, deviation {:.3g}{}</span>"
      "<svg viewBox=\"0 0 240 84\" class=\"bars line-0\" role=\"img\" aria-label=\"{}\">{}<text "
      "x=\"0\" y=\"82\">{:.3g}</text>"
      "<text x=\"240\" y=\"82\" class=\"end\">{:.3g}</text></svg></figure>\n",
      html_text(histogram.name), histogram.mean, histogram.deviation, others, html_text(histogram.name), bars,
      histogram.low, histogram.high);
}

}  // namespace nixie
