// Charts as SVG text: grouped bars, and lines over an axis.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nixie::benchmark {

struct BarChart {
  std::string title = {}, subtitle = {}, unit = {};
  std::vector<std::string> groups = {};  ///< along the axis
  struct Series {
    std::string name;
    std::vector<double> values;  ///< one per group; 0 or less: no bar
  };
  std::vector<Series> series = {};
};

struct LineChart {
  std::string title = {}, subtitle = {}, x_label = {}, y_label = {};
  bool log_x = true, log_y = true;  ///< a logarithmic axis leaves out points that are not positive
  struct Series {
    std::string name;
    std::vector<std::pair<double, double>> points;
    bool is_line = true;  ///< false: dots
  };
  std::vector<Series> series = {};
};

std::string svg_text(const BarChart& chart);
std::string svg_text(const LineChart& chart);

}  // namespace nixie::benchmark
