// Tables are read whole: cells first, then numbers.
#include "nixie/data/files/table_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <sstream>

#include "nixie/core/base/error.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/files/folder_scan.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// The cells of a line; a quote that does not end goes to the line's end.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  const auto trim = [](std::string& cell) {
    cell.erase(cell.find_last_not_of(' ') + 1);
    cell.erase(0, cell.find_first_not_of(' '));
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      cells.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      trim(cells.back()), cells.emplace_back();
    else
      cells.back() += c;
  }
  trim(cells.back());
  return cells;
}

template <class T>
NumberArray array_of(const char* type, const std::vector<T>& values, std::vector<std::int64_t> shape) {
  NumberArray array{
      .type = type, .shape = std::move(shape), .bytes = std::vector<std::uint8_t>(values.size() * sizeof(T))};
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

/// Integers where all are whole, so that classes are told from numbers.
NumberArray targets_of(const std::vector<double>& values, std::vector<std::int64_t> shape) {
  constexpr double kMost = 1e15;
  if (!std::ranges::all_of(values, [](double x) { return x == std::floor(x) && std::abs(x) < kMost; }))
    return array_of("f8", values, std::move(shape));
  return array_of("i8", std::vector<std::int64_t>(values.begin(), values.end()), std::move(shape));
}

}  // namespace

bool is_table_name(const fs::path& file) { return lower_suffix(file) == ".csv"; }

std::vector<TableRow> read_table(const fs::path& file) {
  std::istringstream text(read_text(file, Fault::data, "check the path and its permissions"));
  std::vector<TableRow> rows;
  std::string line;
  for (std::int64_t number = 1; std::getline(text, line); ++number) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // as Excel writes it
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (line.ends_with('\r')) line.pop_back();
    if (line.find('\0') != std::string::npos)
      fail(Fault::data, file.string(), ":", number,
           ": holds a byte of 0x00, which no text in UTF-8 does; save it as UTF-8");
    if (line.find('\r') != std::string::npos)
      fail(Fault::data, file.string(), ":", number,
           ": a carriage return inside the line; end lines by a line feed, with or without one before it");
    std::vector<std::string> cells = cells_of(line);
    for (const auto& [mark, name] : {std::pair{';', "a semicolon"}, {'\t', "a tab"}})
      if (number > 1 && cells.size() == 1 && cells[0].find(mark) != std::string::npos)
        fail(Fault::data, file.string(), ":", number, ": has ", name, " and no comma; separate cells by commas");
    if (cells.size() > 1 || !cells[0].empty()) rows.push_back({number, std::move(cells)});
  }
  return rows;
}

std::optional<double> number_in(const std::string& cell) {
  double number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (end != cell.data() + cell.size() || error == std::errc::invalid_argument) return {};
  // Samples and targets are floats.
  return error == std::errc{} && std::isfinite(static_cast<float>(number)) ? number : INFINITY;
}

bool is_number_table(const fs::path& file) {
  const std::vector<TableRow> rows = read_table(file);
  return !rows.empty() && number_in(rows.back().cells[0]);
}

TableFile::TableFile(const fs::path& file, int targets, const std::vector<std::string>& classes)
    : ArraySource(file), class_names_(classes) {
  std::vector<TableRow> rows = read_table(file);
  const auto is_number = [](const std::string& cell) { return number_in(cell).has_value(); };
  if (!rows.empty() && std::ranges::none_of(rows[0].cells, is_number)) rows.erase(rows.begin());  // the columns' names
  if (rows.empty()) fail(Fault::data, file.string(), ": no row of numbers");
  const std::size_t columns = rows[0].cells.size(), given = static_cast<std::size_t>(targets);
  if (columns <= given)
    fail(Fault::data, file.string(), ":", rows[0].number, ": ", columns, " columns, expected numbers and then ", given,
         given == 1 ? " target" : " targets");
  // Words in the last column name classes.
  const bool is_named = given == 1 && (!classes.empty() || std::ranges::none_of(rows, [&](const TableRow& row) {
                          return is_number(row.cells.back());
                        }));
  if (is_named && classes.empty()) {
    for (const TableRow& row : rows) class_names_.push_back(row.cells.back());
    std::ranges::sort(class_names_);
    class_names_.erase(std::unique(class_names_.begin(), class_names_.end()), class_names_.end());
  }
  std::vector<double> numbers, wanted;
  std::vector<std::int64_t> lines;
  for (const auto& [line, cells] : rows) {
    lines.push_back(line);
    if (cells.size() != columns)
      fail(Fault::data, file.string(), ":", line, ": ", cells.size(), " cells where the first row has ", columns);
    for (std::size_t c = 0; c < columns; ++c) {
      const bool is_target = c + given >= columns;
      if (is_named && is_target) {
        if (cells[c].empty())
          fail(Fault::data, file.string(), ":", line, ": column ", c + 1,
               " names no class; mend or leave out the row, and take out a comma at the end of each");
        const auto found = std::ranges::lower_bound(class_names_, cells[c]);
        if (found == class_names_.end() || *found != cells[c])
          fail(Fault::data, file.string(), ":", line, ": ", field_text(cells[c]), " in column ", c + 1,
               " is no class of the training half; mend or leave out the row");
        wanted.push_back(static_cast<double>(found - class_names_.begin()));
        continue;
      }
      const auto number = number_in(cells[c]);
      if (!number || !std::isfinite(*number))
        fail(Fault::data, file.string(), ":", line, ": ", field_text(cells[c]), " in column ", c + 1,
             " is no finite number; mend or leave out the row, or write words as columns of 0 and 1");
      (is_target ? wanted : numbers).push_back(*number);
    }
  }
  const auto samples = static_cast<std::int64_t>(rows.size()), each = static_cast<std::int64_t>(given);
  numbers_ = array_of("f8", numbers, {samples, static_cast<std::int64_t>(columns) - each});
  if (given > 0) targets_ = targets_of(wanted, given == 1 ? std::vector{samples} : std::vector{samples, each});
  lines_ = std::make_shared<std::vector<std::int64_t>>(std::move(lines));
}

ArrayPlaces TableFile::places(const std::string&) const {
  return [file = path().string(), lines = lines_](const std::vector<std::int64_t>& index) {
    return fmt::format("{}:{}", file, (*lines)[static_cast<std::size_t>(index[0])]);
  };
}

}  // namespace nixie
