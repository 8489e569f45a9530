// Figures come from the tables of the run folders, differences from their configurations.
#include "nixie/apps/trainer/commands/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <initializer_list>

#include "nixie/apps/trainer/program/output_file.h"
#include "nixie/apps/trainer/program/program.h"
#include "nixie/apps/trainer/progress.h"
#include "nixie/apps/trainer/record/csv_file.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/apps/trainer/report/chart.h"
#include "nixie/apps/trainer/report/page.h"
#include "nixie/apps/trainer/report/run_curves.h"
#include "nixie/configs/parse/config.h"
#include "nixie/configs/parse/differences.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/base/one_line.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

struct Run {
  std::string name;
  RunCurves curves;
  std::string config;
};

bool is_number(const std::string& cell) {
  char* end = nullptr;
  std::strtod(cell.c_str(), &end);
  return !cell.empty() && *end == '\0' && std::isspace(static_cast<unsigned char>(cell[0])) == 0;
}

/// Whether a table is one that a run writes; else curves would be of what is no number. A cell may be empty.
void check_table(const FilePlace& place, std::initializer_list<const char*> needed) {
  constexpr const char* kAdvice = "; correct it, or leave the run out";
  const CsvTable table = read_csv(place);
  const fs::path& file = place.path();
  check(table.zero_line == 0, file.string(), ":", table.zero_line,
        ": holds bytes of 0x00, which no run writes: the disk lost what was there", kAdvice);
  check(table.odd_line == 0, file.string(), ":", table.odd_line, ": expected ", table.columns.size(),
        " cells, as line 1 has", kAdvice);
  for (const char* column : needed)
    check(table.columns.empty() || std::ranges::find(table.columns, column) != table.columns.end(), file.string(),
          ":1: no column is named ", column, kAdvice);
  for (std::size_t row = 0; row < table.rows.size(); ++row)
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const std::string &cell = table.rows[row][i], &column = table.columns[i];
      const bool may_be_empty = column != "step" && column != "split";
      check(column == "split" ? cell == "train" || cell == "test" : is_number(cell) || (cell.empty() && may_be_empty),
            file.string(), ":", table.lines[row], ": ", one_line(column), " is ", field_text(cell), ", expected ",
            column == "split" ? "train or test" : "a number", kAdvice);
    }
}

Run read_run(const Folder& folder) {
  check_run_files(folder);
  for (const char* file : {"metrics.csv", "config.yaml"})
    check(fs::exists(FilePlace(folder, file).status()), folder.path().string(), " holds no ", file,
          "; name folders of runs, as runs/NAME/1");
  check_table({folder, "metrics.csv"}, {"step", "split", "loss"});
  check_table({folder, "timing.csv"}, {"step"});
  return {folder.path().lexically_normal().string(), read_curves(folder),
          config_text(load_config(FilePlace(folder, "config.yaml")))};
}

/// The changes; a part under another name is one change (`data: image_folder -> packed`).
std::vector<std::string> changes_by_part(const std::string& from, const std::string& to) {
  const auto chosen = [](const Tree& tree, const std::string& key) {
    const Tree* part = tree.find(key);
    return part && part->entries.size() == 1 ? part->entries[0].key : std::string();
  };
  const Tree before = parse_yaml(from, "config"), after = parse_yaml(to, "config");
  std::vector<std::string> lines;
  for (const std::string& change : config_differences(from, to)) {
    const std::string key = change.substr(0, change.find_first_of(".:")), old_name = chosen(before, key),
                      new_name = chosen(after, key);
    const bool is_other = !old_name.empty() && !new_name.empty() && old_name != new_name;
    const std::string line = is_other ? fmt::format("{}: {} -> {}", key, old_name, new_name) : change;
    if (lines.empty() || lines.back() != line) lines.push_back(line);
  }
  return lines;
}

std::string last_text(const Curve& curve, const char* format) {
  return curve.empty() ? "" : fmt::format(fmt::runtime(format), curve.back().second);
}

/// The curve of a metric; empty where the run has none of this name.
Curve metric_curve(const Run& run, const std::string& name) {
  const auto& metrics = run.curves.metrics;
  const auto found = std::ranges::find_if(metrics, [&](const auto& metric) { return metric.first == name; });
  return found == metrics.end() ? Curve{} : found->second;
}

/// The metrics of all runs, each once, in their order.
std::vector<std::string> metric_names(const std::vector<Run>& runs) {
  std::vector<std::string> names;
  for (const Run& run : runs)
    for (const auto& [name, curve] : run.curves.metrics)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

void print_table(const std::vector<Run>& runs) {
  std::size_t width = 3;
  for (const Run& run : runs) width = std::max(width, run.name.size());
  const std::vector<std::string> metrics = metric_names(runs);
  const auto title = [](const std::string& metric) { return "last " + metric; };
  tell("{:{}} {:>9} {:>13} {:>13} {:>10} {:>10} {:>9}", "run", width, "steps", "best accuracy", "last accuracy",
       "last loss", "images/s", "time");
  for (const std::string& metric : metrics) tell(" {:>10}", title(metric));
  tell("\n");
  for (const Run& run : runs) {
    const RunCurves& curves = run.curves;
    double best = 0;
    for (const auto& [step, accuracy] : curves.test_accuracy) best = std::max(best, accuracy);
    const double steps = std::max(curves.test_loss.empty() ? 0 : curves.test_loss.back().first,
                                  curves.train_loss.empty() ? 0 : curves.train_loss.back().first);
    const bool is_empty = curves.test_loss.empty() && curves.train_loss.empty();
    tell("{:{}} {:>9} {:>13} {:>13} {:>10} {:>10} {:>9}", run.name, width, is_empty ? "" : fmt::format("{}", steps),
         curves.test_accuracy.empty() ? "" : fmt::format("{:.4f}", best), last_text(curves.test_accuracy, "{:.4f}"),
         last_text(curves.test_loss, "{:.4f}"), last_text(curves.images_per_second, "{:.0f}"),
         curves.seconds.empty() ? "" : clock_text(curves.seconds.back().second));
    for (const std::string& metric : metrics)
      tell(" {:>{}}", last_text(metric_curve(run, metric), "{:.4f}"), std::max<std::size_t>(10, title(metric).size()));
    tell("\n");
  }
}

std::string page(const std::vector<Run>& runs, const std::vector<std::string>& differences) {
  const struct {
    const char* title;
    Curve RunCurves::*curve;
    Chart::Scale scale;
  } kCharts[] = {{"Test accuracy", &RunCurves::test_accuracy, Chart::Scale::share},
                 {"Test loss", &RunCurves::test_loss, Chart::Scale::wide},
                 {"Training loss", &RunCurves::train_loss, Chart::Scale::wide},
                 {"Learning rate", &RunCurves::rate, Chart::Scale::plain},
                 {"Images per second", &RunCurves::images_per_second, Chart::Scale::from_zero}};
  std::string list;
  std::vector<Chart> charts;
  for (const auto& [title, curve, scale] : kCharts) {
    Chart& chart = charts.emplace_back(Chart{.title = title, .scale = scale});
    for (const Run& run : runs) chart.series.push_back({run.name, run.curves.*curve});
  }
  for (const std::string& metric : metric_names(runs)) {
    Chart& chart = charts.emplace_back(Chart{.title = "Test " + metric});
    for (const Run& run : runs) chart.series.push_back({run.name, metric_curve(run, metric)});
  }
  const double of_first = runs[0].curves.steps_per_epoch;
  const bool have_same_epochs =
      std::ranges::all_of(runs, [&](const Run& run) { return run.curves.steps_per_epoch == of_first; });
  for (const std::string& line : differences) list += html_text(line) + "\n";
  return html_page(fmt::format("{} runs", runs.size()), charts_html(charts, have_same_epochs ? of_first : 0) +
                                                            section("Differences", "<pre>" + list + "</pre>\n"));
}

}  // namespace

void run_compare(const CompareCommand& command) {
  constexpr std::size_t kMost = 8;  // as the page has colours
  check(command.runs.size() <= kMost, command.runs.size(), " runs are named, at most ", kMost, " are compared");
  std::vector<fs::path> files;
  for (const fs::path& folder : command.runs)
    for (const char* file : {"metrics.csv", "timing.csv", "config.yaml"}) files.push_back(folder / file);
  check_output(command.html, FilesInUse(files));
  std::vector<Run> runs;
  for (const fs::path& folder : command.runs) runs.push_back(read_run(folder));
  print_table(runs);
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (runs[i].curves.test_loss.empty() && runs[i].curves.train_loss.empty())
      tell("{}: no rows behind line 1; the run has not logged a step\n", command.runs[i] / "metrics.csv");
  std::vector<std::string> differences;
  for (std::size_t i = 1; i < runs.size(); ++i)
    for (const std::string& change : changes_by_part(runs[0].config, runs[i].config))
      differences.push_back(runs[i].name + ": " + change);
  for (const std::string& line : differences) tell("{}\n", line);
  if (command.html.empty()) return;
  write_text(command.html, page(runs, differences));
  tell("{}: the curves\n", command.html);
}

}  // namespace nixie
