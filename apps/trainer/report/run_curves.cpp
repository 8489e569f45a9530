// RunCurves: columns are found by name.
#include "nixie/apps/trainer/report/run_curves.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "nixie/apps/trainer/record/csv_file.h"

namespace nixie {
namespace {

/// A column over the step, of the rows of one split where there is such a column.
Curve curve_of(const CsvTable& table, const char* column, const char* split = nullptr) {
  const auto find = [&](const char* name) {
    return static_cast<std::size_t>(std::find(table.columns.begin(), table.columns.end(), name) -
                                    table.columns.begin());
  };
  const std::size_t step = find("step"), value = find(column), half = find("split"), none = table.columns.size();
  Curve curve;
  if (step == none || value == none || (split && half == none)) return curve;
  for (const auto& row : table.rows)
    if ((!split || row[half] == split) && !row[value].empty())
      curve.emplace_back(std::strtod(row[step].c_str(), nullptr), std::strtod(row[value].c_str(), nullptr));
  return curve;
}

/// The columns behind the fixed ones, which record/run_record.cpp names.
std::vector<std::pair<std::string, Curve>> metric_curves(const CsvTable& metrics) {
  std::vector<std::pair<std::string, Curve>> curves;
  const auto last = std::find(metrics.columns.begin(), metrics.columns.end(), "learning_rate");
  for (auto name = last; name != metrics.columns.end(); ++name)
    if (name != last) curves.emplace_back(*name, curve_of(metrics, name->c_str(), "test"));
  return curves;
}

/// An epoch ends with an evaluation, mostly: then the steps until a row, divided by its epoch, are as many as they get.
double steps_per_epoch(const Curve& epochs) {
  double most = 0;
  for (const auto& [step, epoch] : epochs)
    if (epoch >= 1) most = std::max(most, std::ceil(step / epoch));
  return !epochs.empty() && epochs.back().second > 1 ? most : 0;
}

}  // namespace

RunCurves read_curves(const Folder& run) {
  const CsvTable metrics = read_csv({run, "metrics.csv"}), timing = read_csv({run, "timing.csv"});
  return {.train_loss = curve_of(metrics, "loss", "train"),
          .test_loss = curve_of(metrics, "loss", "test"),
          .train_accuracy = curve_of(metrics, "accuracy", "train"),
          .test_accuracy = curve_of(metrics, "accuracy", "test"),
          .rate = curve_of(metrics, "learning_rate", "train"),
          .images_per_second = curve_of(timing, "images_per_second"),
          .seconds = curve_of(timing, "seconds"),
          .steps_per_epoch = steps_per_epoch(curve_of(metrics, "epoch")),
          .metrics = metric_curves(metrics)};
}

}  // namespace nixie
