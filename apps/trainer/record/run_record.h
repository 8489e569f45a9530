// RunRecord: writes a run's figures to the files of its folder: tables, JSON lines, TensorBoard's events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nixie/apps/trainer/record/csv_file.h"
#include "nixie/apps/trainer/record/event_file.h"

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
  /// Goes on in the folder's files after `step`: rows of later steps are cut off, and those of `step` beyond a size of
  /// metrics.csv, as of an evaluation after which nothing was saved (-1: not known). `metrics` are the names of further
  /// columns. The folder's other `changes` are made first. Throws a usage Error where a table has other columns,
  /// Fault::storage; where a file or the disk refuses, nothing is changed.
  RunRecord(const Folder& folder, const std::vector<std::string>& metrics, std::int64_t step,
            std::int64_t metrics_bytes = -1, Replacements changes = {});

  /// `seconds` are of this process.
  void training(const Figures& figures, double seconds, double images_per_second);
  void evaluation(const Figures& figures);
  /// Makes every row durable. Throws Fault::storage.
  void sync();
  /// The size of metrics.csv.
  std::int64_t metrics_bytes() const { return metrics_.bytes(); }
  /// The hash of all that metrics.csv holds, as a checkpoint keeps it.
  std::string metrics_checksum() const;
  /// Whether metrics.csv began with what a checkpoint counted: so many bytes (-1: not known) of this checksum ("": not
  /// known). Throws Fault::storage.
  bool began_with(std::int64_t bytes, const std::string& checksum) const;
  /// How many rows of timing.csv had no seconds at the start: its next rows go on from the last that had.
  std::int64_t senseless() const { return senseless_; }
  /// How many rows of training metrics.csv had at the start for which timing.csv had none.
  std::int64_t untimed() const { return untimed_; }

 private:
  void append(const char* split, const Figures& figures, std::vector<Scalar> scalars);

  std::vector<std::string> columns_;  // of metrics.csv
  CsvFile metrics_, timing_;
  std::optional<AppendFile> lines_;
  EventFile events_;
  std::int64_t untimed_ = 0, senseless_ = 0;
  double seconds_before_ = 0;  // of the run's earlier processes
};

/// A row of a table as a JSON object: numbers as they are, empty cells left out, nan and inf as null.
std::string json_line(const std::vector<std::string>& columns, const std::vector<std::string>& cells);

}  // namespace nixie
