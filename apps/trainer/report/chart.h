// Chart: lines over an axis, as SVG inside a page whose style sheet colours them.
#pragma once

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

}  // namespace nixie
