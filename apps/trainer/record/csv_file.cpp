// Cutting goes through a temporary and a rename, so that a kill leaves either the old table or the new one.
#include "nixie/apps/trainer/record/csv_file.h"

#include <charconv>
#include <sstream>

#include "nixie/configs/parse/suggestion.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/files/open_to_read.h"

namespace nixie {
namespace {

constexpr const char* kAdvice = "check the disk and the permissions";

/// The number in a row's second column; -1 where there is none.
std::int64_t step_of(const std::string& row) {
  const std::size_t comma = row.find(',');
  if (comma == std::string::npos) return -1;
  std::int64_t step = -1;
  std::from_chars(row.data() + comma + 1, row.data() + row.size(), step);
  return step;
}

/// The rows to keep. A last line without its end was being written when the run was killed.
std::vector<std::string> kept_rows(const FilePlace& place, const std::string& header, std::int64_t step) {
  std::vector<std::string> rows;
  std::string line;
  if (!std::filesystem::is_regular_file(place.status())) return rows;
  std::istringstream file(read_text(place, Fault::storage, kAdvice));
  if (!std::getline(file, line) || file.eof()) return rows;
  if (line.find('\0') != std::string::npos)
    fail(Fault::storage, place.path().string(),
         ": its first line holds bytes of 0x00, which no run writes: the disk lost what was there; "
         "move the file away");
  check(line == header, place.path().string(), " has the columns ", field_text(line), ", this run writes ", header,
        "; move the file away, or resume with the metrics it was begun with");
  while (std::getline(file, line) && !file.eof())
    if (const std::int64_t at = step_of(line); at >= 0 && at <= step) rows.push_back(line);
  return rows;
}

CsvTable parse_csv(const std::string& text) {
  CsvTable table;
  std::istringstream file(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (table.zero_line == 0 && line.find('\0') != std::string::npos) table.zero_line = number;
    if (file.eof()) break;  // a row that is being written
    std::vector<std::string> cells = parts_of(line, ',');
    if (table.columns.empty())
      table.columns = std::move(cells);
    else if (cells.size() == table.columns.size())
      table.rows.push_back(std::move(cells)), table.lines.push_back(number);
    else if (table.odd_line == 0)
      table.odd_line = number;
  }
  return table;
}

}  // namespace

CsvFile::CsvFile(Replacements& changes, const FilePlace& place, const std::string& header, std::int64_t step,
                 std::int64_t most_bytes)
    : place_(place) {
  std::string text = header + "\n";
  count(header);
  for (const std::string& row : kept_rows(place_, header, step)) {
    // Rows of that step may have come after the checkpoint; earlier ones are before it, whatever it counts.
    if (step_of(row) == step && static_cast<std::int64_t>(text.size() + row.size()) >= most_bytes) break;
    text += row + "\n";
    count(row);
  }
  before_ = parse_csv(text);
  changes.write(place_, std::move(text));
}

void CsvFile::append(const std::string& row) {
  file_->append(row + "\n");
  count(row);
}

std::optional<std::uint64_t> CsvFile::checksum_of(std::int64_t bytes) const {
  if (bytes == bytes_) return checksum();
  std::istringstream file(read_text(place_, Fault::storage, kAdvice));
  Fingerprint print;
  std::int64_t at = 0;
  for (std::string line; at < bytes && std::getline(file, line); at += static_cast<std::int64_t>(line.size()) + 1)
    print.add(line);
  return at == bytes ? std::optional(print.value()) : std::nullopt;
}

void CsvFile::count(const std::string& line) {
  print_.add(line);
  bytes_ += static_cast<std::int64_t>(line.size()) + 1;
}

CsvTable read_csv(const FilePlace& place) {
  if (!std::filesystem::is_regular_file(place.status())) return {};
  return parse_csv(read_text(place, Fault::storage, kAdvice));
}

}  // namespace nixie
