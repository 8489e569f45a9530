// The benchmark's charts: texts that do not run into each other, and series that differ to the eye.
#include "nixie/apps/benchmark/report/svg.h"

#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

namespace nixie::benchmark {
namespace {

struct Text {
  double middle, width;
  std::string text;
};

/// The texts with a middle, by their rows; a letter is 0.55 of the font's size wide.
std::map<double, std::vector<Text>> rows_of(const std::string& svg) {
  const std::regex pattern(
      "<text x=\"([0-9.]+)\" y=\"([0-9.]+)\" text-anchor=\"middle\"(?: font-size=\"([0-9.]+)\")?>([^<]*)<");
  std::map<double, std::vector<Text>> rows;
  for (std::sregex_iterator found(svg.begin(), svg.end(), pattern), end; found != end; ++found) {
    const double size = (*found)[3].matched ? std::stod((*found)[3]) : 12;
    const std::string text = (*found)[4];
    rows[std::stod((*found)[2])].push_back(
        {std::stod((*found)[1]), 0.55 * size * static_cast<double>(text.size()), text});
  }
  return rows;
}

TEST(Svg, TextsOfBarsDoNotRunIntoEachOther) {
  const std::vector<std::string> nets = {"alexnet",      "overfeat",     "vgg_a", "resnet18", "resnet50",
                                         "mobilenet_v1", "googlenet_bn", "vgg16", "cifar10",  "mlp"};
  for (const char* ending : {"", " x128 fp16"})
    for (const int series : {1, 2, 3}) {
      BarChart chart{.title = "t", .subtitle = "s", .unit = "ms"};
      for (const std::string& net : nets) chart.groups.push_back(net + ending);
      for (int i = 0; i < series; ++i)
        chart.series.push_back({"series", std::vector<double>(nets.size(), 123.4 + (series == 3 ? 0 : i))});
      int compared = 0;
      for (const auto& [y, row] : rows_of(svg_text(chart)))
        for (std::size_t i = 1; i < row.size(); ++i, ++compared)
          EXPECT_GE(row[i].middle - row[i - 1].middle, (row[i].width + row[i - 1].width) / 2)
              << row[i - 1].text << " and " << row[i].text << ending << " " << series;
      EXPECT_GE(compared, 8 + 9 * series);
    }
}

TEST(Svg, EachSeriesHasALookOfItsOwn) {
  LineChart chart{.title = "t", .subtitle = "s", .x_label = "x", .y_label = "y"};
  constexpr std::size_t kSeries = 24;
  for (std::size_t i = 0; i < kSeries; ++i) chart.series.push_back({"series", {{1, 1}, {10, 10}}});
  const std::string svg = svg_text(chart);
  std::set<std::string> marks, lines, keys;
  const auto collect = [&](std::set<std::string>& looks, const std::string& pattern) {
    const std::regex look(pattern);
    for (std::sregex_iterator found(svg.begin(), svg.end(), look), end; found != end; ++found)
      looks.insert((*found)[1]);
  };
  collect(marks, "r=\"3\" ([^/]*)/>");
  collect(lines, "<polyline points=\"[^\"]*\" ([^/]*)/>");
  collect(keys, "width=\"11\" height=\"11\" ([^/]*)/>");
  EXPECT_EQ(marks.size(), kSeries);
  EXPECT_EQ(lines.size(), kSeries);
  EXPECT_EQ(keys, marks);
}

}  // namespace
}  // namespace nixie::benchmark
