// CsvFile: a table that grows row by row, every row on disk before the next, and can be cut back to an earlier step.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace nixie {

/// The second column of every table is the step.
class CsvFile {
 public:
  /// Keeps the complete rows up to and including `step` of what stands at `path`, and goes on behind them; where there
  /// is no file, or one with another header, it begins with the header. Throws Fault::storage.
  CsvFile(std::filesystem::path path, const std::string& header, std::int64_t step);

  /// Adds a row (without a line end). Throws Fault::storage.
  void append(const std::string& row);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace nixie
