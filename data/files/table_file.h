// Tables: the rows of CSV files (RFC 4180); and TableFile, a table of numbers as arrays.
#pragma once

#include <cstdint>
#include <optional>

#include "nixie/data/files/array_source.h"

namespace nixie {

struct TableRow {
  std::int64_t number;  ///< of its line, from 1
  std::vector<std::string> cells;
};

/// Whether the name ends in .csv, in any case.
bool is_table_name(const std::filesystem::path& file);
/// The lines of a CSV file that are not empty; spaces around a cell are no part of it. Throws Fault::data, also for a
/// quote in a cell that is not quoted as a whole on its line.
std::vector<TableRow> read_table(const std::filesystem::path& file);
/// Columns are taken by position: throws Fault::data where the tables of both halves name them, but not alike.
void check_columns(const std::filesystem::path& test, const std::vector<std::string>& test_names,
                   const std::filesystem::path& train, const std::vector<std::string>& train_names);
/// The number that is the whole cell; one beyond the range is infinite, one below it 0.
std::optional<double> number_in(const std::string& cell);
/// Whether the file is a table of numbers, not one that names pictures: its last row begins with a number.
bool is_number_table(const std::filesystem::path& file);

/// A row for each sample: numbers, then its targets in the last `targets` columns. The first row may name the columns.
/// The arrays are `x` [N, F] and, unless `targets` is 0, `y`: [N] or [N, targets] numbers, whole ones as integers.
/// Words in a single target column are classes, numbered in the order of the alphabet.
class TableFile final : public ArraySource {
 public:
  /// In a test half, words are classes of the `training` half. Throws Fault::data naming file, line and column of a
  /// cell that is no finite number or another word, a row of another length, or a column with another name.
  TableFile(const std::filesystem::path& file, int targets, const ArraySource* training = nullptr);

  std::vector<std::string> names() const override {
    return targets_.shape.empty() ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "y"};
  }
  NumberArray array(const std::string& name) const override { return name == "x" ? numbers_ : targets_; }
  ArrayPlaces places(const std::string& name) const override;
  std::vector<std::string> class_names() const override { return class_names_; }
  std::vector<std::string> column_names() const override { return column_names_; }

 private:
  NumberArray numbers_, targets_ = {};
  std::vector<std::string> class_names_ = {}, column_names_ = {};
  std::shared_ptr<const std::vector<std::int64_t>> lines_;  // of the rows
};

}  // namespace nixie
