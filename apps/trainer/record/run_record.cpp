// The table is the original: the JSON lines are made of its rows.
#include "nixie/apps/trainer/record/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "nixie/apps/trainer/record/statistics_lines.h"

namespace nixie {
namespace {

constexpr const char* kTimingHeader = "epoch,step,seconds,images_per_second";
constexpr std::size_t kFixedColumns = 6;

std::vector<std::string> columns_with(const std::vector<std::string>& metrics) {
  std::vector<std::string> columns = {"epoch", "step", "split", "loss", "accuracy", "learning_rate"};
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  return columns;
}

/// The seconds of a row of timing.csv; nothing where the cell holds none.
std::optional<double> seconds_in(const std::string& cell) {
  constexpr double kMost = 1e12;  // far longer than any run
  double seconds = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), seconds);
  const bool is_number = error == std::errc{} && end == cell.data() + cell.size();
  return is_number && seconds >= 0 && seconds <= kMost ? std::optional(seconds) : std::nullopt;
}

std::string json_value(const std::string& cell) {
  double number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (error != std::errc{} || end != cell.data() + cell.size())
    return nlohmann::json(cell).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return std::isfinite(number) ? cell : "null";
}

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

/// A row of a table as a JSON object: numbers as they are, empty cells left out, nan and inf as null.
std::string json_line(const std::vector<std::string>& columns, const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < std::min(columns.size(), cells.size()); ++i)
    if (!cells[i].empty())
      line +=
          fmt::format("{}{}: {}", line.empty() ? "" : ", ", nlohmann::json(columns[i]).dump(), json_value(cells[i]));
  return "{" + line + "}";
}

/// The table's rows as lines.
std::string lines_of(const CsvTable& table) {
  std::string text;
  for (const auto& cells : table.rows) text += json_line(table.columns, cells) + "\n";
  return text;
}

/// How many rows of training have no row of their step in `timing`.
std::int64_t count_untimed(const CsvTable& metrics, const CsvTable& timing) {
  std::set<std::string> timed;
  for (const auto& cells : timing.rows) timed.insert(cells[1]);
  return std::count_if(metrics.rows.begin(), metrics.rows.end(),
                       [&](const auto& cells) { return cells[2] == "train" && !timed.contains(cells[1]); });
}

}  // namespace

RunRecord::RunRecord(const Folder& folder, const std::vector<std::string>& metrics, const RunState& state,
                     Replacements changes, bool has_statistics)
    : columns_(columns_with(metrics)),
      metrics_(changes, {folder, "metrics.csv"}, fmt::format("{}", fmt::join(columns_, ",")), state.step,
               state.metrics_bytes < 0 ? std::numeric_limits<std::int64_t>::max() : state.metrics_bytes),
      timing_(changes, {folder, "timing.csv"}, kTimingHeader, state.step),
      events_(changes, folder, state.step) {
  const CsvTable metrics_before = metrics_.take_before(), timing_before = timing_.take_before();
  std::int64_t senseless = 0;
  for (const auto& cells : timing_before.rows) {
    const std::optional<double> seconds = seconds_in(cells[2]);
    seconds_before_ = seconds.value_or(seconds_before_);
    senseless += !seconds;
  }
  const FilePlace lines(folder, "metrics.jsonl");
  changes.write(lines, lines_of(metrics_before));  // rows may have been cut off
  const FilePlace statistics(folder, kStatisticsFile);
  if (has_statistics) changes.write(statistics, statistics_up_to(statistics, state.step));
  changes.make();
  metrics_.open(), timing_.open(), events_.open();
  lines_.emplace(lines);
  if (has_statistics) statistics_.emplace(statistics);
  agrees_ = began_with(state);
  const std::string table = FilePlace(folder, "metrics.csv").path().string(),
                    times = FilePlace(folder, "timing.csv").path().string();
  if (state.metrics_bytes >= 0 && state.metrics_bytes != metrics_.bytes())
    notes_.push_back(fmt::format(
        "{} has {} bytes up to step {}, but had {} when the checkpoint was written: rows are missing or were changed",
        table, metrics_.bytes(), state.step, state.metrics_bytes));
  else if (!agrees_)
    notes_.push_back(fmt::format(
        "{} has other rows up to step {} than when the checkpoint was written: rows are missing or were changed", table,
        state.step));
  if (const std::int64_t untimed = count_untimed(metrics_before, timing_before); untimed > 0)
    notes_.push_back(fmt::format("{} has no rows for {} rows of training in metrics.csv: its rows were lost or removed",
                                 times, untimed));
  if (senseless > 0)
    notes_.push_back(
        fmt::format("{} has {} rows whose seconds are no number from 0 on: later rows go on from the last that has",
                    times, senseless));
}

void RunRecord::training(const Figures& figures, double seconds, double images_per_second) {
  append("train", figures, {{"learning_rate", figures.rate}, {"images_per_second", images_per_second}});
  timing_.append(
      fmt::format("{},{},{:.3f},{:.1f}", figures.epoch, figures.step, seconds_before_ + seconds, images_per_second));
}

void RunRecord::evaluation(const Figures& figures) {
  std::vector<Scalar> scalars;
  for (std::size_t i = 0; i < figures.metrics.size(); ++i)
    scalars.push_back({columns_.at(kFixedColumns + i) + "/test", figures.metrics[i]});
  append("test", figures, std::move(scalars));
}

void RunRecord::append(const char* split, const Figures& figures, std::vector<Scalar> scalars) {
  const auto& [epoch, step, loss, accuracy, rate, metrics] = figures;
  std::vector<std::string> cells = {std::to_string(epoch),
                                    std::to_string(step),
                                    split,
                                    fmt::format("{}", loss),
                                    std::isnan(accuracy) ? "" : fmt::format("{}", accuracy),
                                    fmt::format("{}", rate)};
  for (const double metric : metrics) cells.push_back(fmt::format("{}", metric));
  cells.resize(columns_.size());
  metrics_.append(fmt::format("{}", fmt::join(cells, ",")));
  lines_->append(json_line(columns_, cells) + "\n");
  scalars.push_back({std::string("loss/") + split, loss});
  if (!std::isnan(accuracy)) scalars.push_back({std::string("accuracy/") + split, accuracy});
  events_.append(step, scalars);
}

void RunRecord::statistics(std::int64_t step, const std::vector<TensorStatistics>& rows,
                           const std::vector<std::string>& shadow) {
  statistics_->append(statistics_lines(step, rows, shadow));
  events_.append(step, statistics_scalars(rows, shadow), exponent_histograms(rows));
}

void RunRecord::count(RunState& state) const {
  state.metrics_bytes = metrics_.bytes();
  state.metrics_checksum = checksum_text(metrics_.checksum());
}

bool RunRecord::began_with(const RunState& state) const {
  if (!agrees_ || state.metrics_bytes < 0) return true;
  const std::optional<std::uint64_t> found = metrics_.checksum_of(state.metrics_bytes);
  return found && (state.metrics_checksum.empty() || state.metrics_checksum == checksum_text(*found));
}

void RunRecord::sync() {
  metrics_.sync();
  timing_.sync();
  lines_->sync();
  if (statistics_) statistics_->sync();
  events_.sync();
}

}  // namespace nixie
