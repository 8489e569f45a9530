// CsvFile: a table that grows row by row and can be truncated to an earlier step.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nixie/apps/trainer/record/append_file.h"
#include "nixie/apps/trainer/record/replacements.h"
#include "nixie/data/fingerprint.h"

namespace nixie {

/// A table in memory: its columns, and the cells of its complete rows.
struct CsvTable {
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};
  std::vector<std::int64_t> lines = {};  ///< of the rows in the file, from 1
  std::int64_t zero_line = 0;            ///< the first that holds bytes of 0x00, also where its end is missing
  std::int64_t odd_line = 0;             ///< the first with another number of cells than columns, which is left out
};
/// Reads a table without quotes; an empty one where there is no file.
CsvTable read_csv(const FilePlace& place);

/// The second column of every table is the step.
class CsvFile {
 public:
  /// Keeps the complete rows up to and including `step` of the file, those of `step` itself in at most so many bytes,
  /// and goes on behind them; begins with the header where there is no file. Adds what is to be written to `changes`;
  /// `open` follows once they are made. Throws a usage Error where the file has other columns, Fault::storage.
  CsvFile(Replacements& changes, const FilePlace& place, const std::string& header, std::int64_t step,
          std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max());
  void open() { file_.emplace(place_); }
  /// Once: what it holds before a row is appended.
  CsvTable take_before() { return std::exchange(before_, {}); }

  /// Adds a row (without a line end); the system has it when this returns. Throws Fault::storage.
  void append(const std::string& row);
  /// Makes every row durable. Throws Fault::storage, also where the table was removed or replaced.
  void sync() {
    file_->sync();
    file_->check_place();
  }

  /// The table's size in bytes.
  std::int64_t bytes() const { return bytes_; }
  /// The hash of the header and all rows: the same for equal tables, however many processes wrote them.
  std::uint64_t checksum() const { return print_.value(); }
  /// The same of its first lines, where they are of so many bytes. Throws Fault::storage.
  std::optional<std::uint64_t> checksum_of(std::int64_t bytes) const;

 private:
  void count(const std::string& line);

  FilePlace place_;
  CsvTable before_;
  Fingerprint print_;
  std::int64_t bytes_ = 0;
  std::optional<AppendFile> file_;
};

}  // namespace nixie
