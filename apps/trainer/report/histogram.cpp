// Bars are as high as the square root of their share, so that tails show beside a peak.
#include "nixie/apps/trainer/report/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "nixie/apps/trainer/report/page.h"

namespace nixie {

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
  constexpr double kWidth = 240, kHeight = 70;
  const std::int64_t most =
      histogram.counts.empty() ? 1 : *std::max_element(histogram.counts.begin(), histogram.counts.end());
  std::string bars;
  const double width = kWidth / static_cast<double>(std::max<std::size_t>(histogram.counts.size(), 1));
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const double height = kHeight * std::sqrt(static_cast<double>(histogram.counts[i]) / static_cast<double>(most));
    if (height > 0)
      bars += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                          width * static_cast<double>(i), kHeight - height, width - 0.5, height);
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
