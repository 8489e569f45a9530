// Tables are read whole: cells first, then numbers.
#include "nixie/data/files/table_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "nixie/core/base/error.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/files/open_to_read.h"
#include "nixie/data/files/folder_scan.h"
#include "nixie/data/files/trimmed.h"

namespace nixie {
namespace {

namespace fs = std::filesystem;

/// Where the text goes on behind blanks.
std::size_t behind_blanks(const std::string& line, std::size_t at) {
  const std::string_view all = line;
  while (const std::size_t bytes = leading_blank(all.substr(at))) at += bytes;
  return at;
}

/// The cells of a line; `file` and `number` are for messages.
std::vector<std::string> cells_of(const std::string& line, const fs::path& file, std::int64_t number) {
  std::vector<std::string> cells;
  const auto refuse = [&](const char* what) {
    fail(Fault::data, file.string(), ":", number, ": column ", cells.size() + 1, what);
  };
  constexpr const char* kQuoteInside =
      " has a quote inside its text; put the whole cell in quotes and write that quote twice";
  for (std::size_t at = 0; at <= line.size(); ++at) {  // at the comma, or the end, of the cell before
    std::string cell;
    const std::size_t first = behind_blanks(line, at);
    if (line[first] == '"') {
      for (at = first + 1; line[at] != '"' || line[at + 1] == '"'; ++at) {
        if (at == line.size()) refuse(" begins with a quote that does not end on the line; end it there");
        if (line[at] == '"') ++at;
        cell += line[at];
      }
      at = behind_blanks(line, at + 1);
      if (at < line.size() && line[at] != ',') refuse(kQuoteInside);
    } else {
      const std::size_t end = std::min(line.find(',', at), line.size());
      cell = line.substr(at, end - at);
      if (cell.find('"') != std::string::npos) refuse(kQuoteInside);
      at = end;
    }
    cells.emplace_back(trimmed(cell));
  }
  return cells;
}

template <class T>
NumberArray array_of(const char* type, const std::vector<T>& values, std::vector<std::int64_t> shape) {
  NumberArray array{
      .type = type, .shape = std::move(shape), .bytes = std::vector<std::uint8_t>(values.size() * sizeof(T))};
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

/// Integers where all are whole, so that classes differ from numbers.
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
    std::vector<std::string> cells = cells_of(line, file, number);
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
  if (error == std::errc::result_out_of_range) number = std::strtod(cell.c_str(), nullptr);  // infinite, or about 0
  return std::isfinite(static_cast<float>(number)) ? number : INFINITY;                      // samples are floats
}

void check_columns(const fs::path& test, const std::vector<std::string>& test_names, const fs::path& train,
                   const std::vector<std::string>& train_names) {
  const auto [own, other] = std::ranges::mismatch(test_names, train_names);
  if (test_names.empty() || train_names.empty() || (own == test_names.end() && other == train_names.end())) return;
  const auto text = [](auto name, const std::vector<std::string>& names) {
    return name == names.end() ? "missing" : field_text(*name);
  };
  fail(Fault::data, test.string(), ": column ", own - test_names.begin() + 1, " is ", text(own, test_names), ", in ",
       train.string(), " it is ", text(other, train_names), "; give both files the same columns in the same order");
}

bool is_number_table(const fs::path& file) {
  const std::vector<TableRow> rows = read_table(file);
  return !rows.empty() && number_in(rows.back().cells[0]);
}

TableFile::TableFile(const fs::path& file, int targets, const ArraySource* training)
    : ArraySource(file), class_names_(training ? training->class_names() : std::vector<std::string>{}) {
  std::vector<TableRow> rows = read_table(file);
  const auto is_number = [](const std::string& cell) { return number_in(cell).has_value(); };
  if (!rows.empty() && std::ranges::none_of(rows[0].cells, is_number)) {
    column_names_ = std::move(rows[0].cells);
    rows.erase(rows.begin());
  }
  if (training) check_columns(file, column_names_, training->path(), training->column_names());
  if (rows.empty()) fail(Fault::data, file.string(), ": no row of numbers");
  const std::size_t columns = rows[0].cells.size(), given = static_cast<std::size_t>(targets);
  if (columns <= given)
    fail(Fault::data, file.string(), ":", rows[0].number, ": ", columns, " columns, expected numbers and then ", given,
         given == 1 ? " target" : " targets");
  // Words in the last column name classes.
  const bool is_named = given == 1 && (!class_names_.empty() || std::ranges::none_of(rows, [&](const TableRow& row) {
                          return is_number(row.cells.back());
                        }));
  if (is_named && class_names_.empty()) {
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
