// RunRecord: writes a run's figures to the files of its folder: tables, JSON lines, TensorBoard's events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nixie/apps/trainer/record/csv_file.h"
#include "nixie/apps/trainer/record/event_file.h"
#include "nixie/apps/trainer/record/run_state.h"
#include "nixie/models/statistics.h"

namespace nixie {

/// The figures of the steps since the last such row, or of an evaluation.
struct Figures {
  std::int64_t epoch = 0;  ///< from 1
  std::int64_t step = 0;   ///< steps done
  double loss = 0;
  double accuracy = 0;  ///< NaN where there is none
  double rate = 0;
  std::vector<double> metrics = {};  ///< of an evaluation, in the order of their names
};

/// A row that was written has reached the system: a killed process loses none. No file of it but timing.csv and
/// TensorBoard's holds a clock's value, so those of two equal runs are equal.
class RunRecord {
 public:
  /// Goes on in the folder's files after the state's step: rows of later steps are cut off, and those of that step
  /// beyond the size of metrics.csv that the state counts, as of an evaluation after which nothing was saved. `metrics`
  /// are the names of further columns. The folder's other `changes` are made first. Throws a usage Error where a table
  /// has other columns, Fault::storage; where a file or the disk refuses, nothing is changed.
  RunRecord(const Folder& folder, const std::vector<std::string>& metrics, const RunState& state,
            Replacements changes = {}, bool has_statistics = false);

  /// `seconds` are of this process.
  void training(const Figures& figures, double seconds, double images_per_second);
  void evaluation(const Figures& figures);
  /// The statistics of the steps up to `step` since the last such row, into statistics.jsonl and TensorBoard's file;
  /// `shadow` names the formats. Call it where the record was made with has_statistics.
  void statistics(std::int64_t step, const std::vector<TensorStatistics>& rows, const std::vector<std::string>& shadow);
  /// Makes every row durable. Throws Fault::storage.
  void sync();
  /// Notes in the state what metrics.csv holds: its size and its checksum.
  void count(RunState& state) const;
  /// Whether metrics.csv began with the rows that a state counted, or none of it is known, as where the table disagreed
  /// with the state at the start. Throws Fault::storage.
  bool began_with(const RunState& state) const;
  /// Where the tables disagreed with the state, and with each other, at the start: a line each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void append(const char* split, const Figures& figures, std::vector<Scalar> scalars);

  std::vector<std::string> columns_;  // of metrics.csv
  CsvFile metrics_, timing_;
  std::optional<AppendFile> lines_, statistics_;
  EventFile events_;
  std::vector<std::string> notes_;
  bool agrees_ = true;         // with the state, at the start
  double seconds_before_ = 0;  // of the run's earlier processes
};

}  // namespace nixie
