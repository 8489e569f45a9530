// Chart: lines over an axis; Histogram: how numbers are distributed, counted once and drawn small. Both are SVG inside
// a page whose style sheet colours them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nixie {

struct Chart {
  std::string title = {}, x_label = "step";
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;
  };
  std::vector<Series> series = {};
  enum class Scale {
    plain,
    wide,   ///< logarithmic where the values span more than two powers of ten
    share,  ///< 1 at most; where it comes near 1, the error 1 - y is logarithmic
    from_zero
  } scale = Scale::plain;
  bool has_log_x = false;      ///< all x are above 0
  double steps_per_epoch = 0;  ///< above 0: x are steps, and epochs are marked below them
};

/// A <figure>: title, lines, marks, and a legend with the last values; nothing where there is no point. A line has at
/// most 400 points, means of neighbours, and two dozen of them say under the pointer what they are. Line i has the
/// class `line-i`.
std::string chart_html(const Chart& chart);
/// Charts over steps beside each other.
std::string charts_html(std::vector<Chart> charts, double steps_per_epoch);

struct Histogram {
  std::string name = {};
  double low = 0, high = 0;  ///< of the finite values
  double mean = 0, deviation = 0;
  std::int64_t not_finite = 0;
  std::vector<std::int64_t> counts = {};  ///< of equal parts of [low, high]; none where no value is finite
};

Histogram histogram_of(const std::string& name, std::span<const float> values, int bins = 40);

/// A figure of bars with the range below and mean and deviation above it.
std::string histogram_html(const Histogram& histogram);

}  // namespace nixie
