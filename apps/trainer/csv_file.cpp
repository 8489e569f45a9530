// Cutting goes through a temporary and a rename, so that a kill leaves either the old table or the new one.
#include "nixie/apps/trainer/csv_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "nixie/apps/trainer/run_folder.h"
#include "nixie/core/base/fields.h"

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

/// The rows to keep. A last line without its end was being written when the run was killed.
std::vector<std::string> kept_rows(const std::filesystem::path& path, const std::string& header, std::int64_t step) {
  std::vector<std::string> rows;
  std::string line;
  std::ifstream file(path);
  if (!std::getline(file, line) || file.eof()) return rows;
  check(line == header, path.string(), " has the columns ", field_text(line), ", this run writes ", header,
        "; move the file away, or resume with the metrics it was begun with");
  while (std::getline(file, line) && !file.eof())
    if (const std::int64_t at = step_of(line); at >= 0 && at <= step) rows.push_back(line);
  return rows;
}

}  // namespace

CsvFile::CsvFile(std::filesystem::path path, const std::string& header, std::int64_t step) : path_(std::move(path)) {
  std::string text = header + "\n";
  for (std::string& row : kept_rows(path_, header, step)) {
    text += row + "\n";
    last_row_ = std::move(row);
  }
  bytes_ = static_cast<std::int64_t>(text.size());
  write_text(path_, text);
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) fail_writing(errno);
}

CsvFile::~CsvFile() {
  if (file_ >= 0) ::close(file_);
}

void CsvFile::fail_writing(int error) const {
  fail(Fault::storage, path_.string(), ": cannot be written: ", std::generic_category().message(error),
       "; free some space and resume");
}

void CsvFile::append(const std::string& row) {
  const std::string line = row + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_writing(written < 0 ? errno : ENOSPC);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  bytes_ += static_cast<std::int64_t>(row.size()) + 1;
  last_row_ = row;
}

void CsvFile::sync() {
  if (::fsync(file_) != 0) fail_writing(errno);
}

}  // namespace nixie
