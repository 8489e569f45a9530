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
    share,  ///< 1 at most
    from_zero
  } scale = Scale::plain;
  bool has_log_x = false;  ///< all x are above 0
};

/// A <figure>: title, lines, marks, and a legend with the last values. Values that span more than two powers of ten
/// have a logarithmic axis; a line has at most 400 points, means of neighbours. Line i has the class `line-i`.
std::string chart_html(const Chart& chart);

/// The text with what HTML would read as its own replaced.
std::string html_text(const std::string& text);

}  // namespace nixie
