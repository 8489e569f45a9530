// CsvFile: a table that grows row by row and can be cut back to an earlier step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace nixie {

/// The second column of every table is the step.
class CsvFile {
 public:
  /// Keeps the complete rows up to and including `step` of what stands at `path`, and goes on behind them; begins with
  /// the header where there is no file. Throws a usage Error where the file has other columns, Fault::storage.
  CsvFile(std::filesystem::path path, const std::string& header, std::int64_t step);
  ~CsvFile();
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;

  /// Adds a row (without a line end); the system has it when this returns. Throws Fault::storage.
  void append(const std::string& row);
  /// Makes every row durable. Throws Fault::storage.
  void sync();

  /// The table's size in bytes.
  std::int64_t bytes() const { return bytes_; }
  /// The last row, "" where there is none.
  const std::string& last_row() const { return last_row_; }

 private:
  [[noreturn]] void fail_writing(int error) const;

  std::filesystem::path path_;
  std::string last_row_;
  std::int64_t bytes_ = 0;
  int file_ = -1;
};

}  // namespace nixie
