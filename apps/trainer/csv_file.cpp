// Cutting goes through a temporary and a rename, so that a kill leaves either the old table or the new one.
#include "nixie/apps/trainer/csv_file.h"

#include <charconv>
#include <fstream>

#include "nixie/apps/trainer/run_folder.h"
#include "nixie/core/base/error.h"

namespace nixie {
namespace {

/// The number in a row's second column; -1 where there is none.
std::int64_t step_of(const std::string& row) {
  const std::size_t comma = row.find(',');
  if (comma == std::string::npos) return -1;
  std::int64_t step = -1;
  std::from_chars(row.data() + comma + 1, row.data() + row.size(), step);
  return step;
}

/// The header and the rows to keep. A last line without its end was being written when the run was killed.
std::string kept_text(const std::filesystem::path& path, const std::string& header, std::int64_t step) {
  std::string text = header + "\n", line;
  std::ifstream file(path);
  if (!std::getline(file, line) || line != header) return text;
  while (std::getline(file, line) && !file.eof()) {
    const std::int64_t at = step_of(line);
    if (at >= 0 && at <= step) text += line + "\n";
  }
  return text;
}

}  // namespace

CsvFile::CsvFile(std::filesystem::path path, const std::string& header, std::int64_t step) : path_(std::move(path)) {
  write_text(path_, kept_text(path_, header, step));
  file_.reset(std::fopen(path_.c_str(), "ae"));
  if (!file_) fail(Fault::storage, path_.string(), ": cannot be opened for writing");
}

void CsvFile::append(const std::string& row) {
  if (std::fputs((row + "\n").c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0)
    fail(Fault::storage, path_.string(), ": cannot be written, is the disk full?");
}

}  // namespace nixie
