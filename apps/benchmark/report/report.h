// Report: a table that is printed row by row and written to files, with the conditions of its measurement: machine,
// device, driver, clocks, program and date.
#pragma once

#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/program/program.h"

namespace nixie {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Timing, mean, median, min, max, runs)
}

namespace nixie::benchmark {

/// A column of the printed table.
struct Column {
  std::string heading;
  int width;                  ///< of the cells; negative: to the left
  std::string key;            ///< of a row, nested ones joined by dots: `peer.error`; a row may lack it
  std::string format = "{}";  ///< of the value; of an object that is a Timing: of median, min and max
  double unit = 1;            ///< times the number
};
using Columns = std::vector<Column>;

/// A row's line; and the headings and the rows, a line each.
std::string row_text(const Columns& columns, const nlohmann::json& row);
std::string table_text(const Columns& columns, const nlohmann::json& rows);

/// Where a table is written to; empty: nowhere.
struct Files {
  std::filesystem::path json = {}, csv = {}, plot = {};
};

class Report {
 public:
  /// Throws if a file cannot be written (Fault::storage) or a chart drawn, so that this is known before the work.
  Report(const std::string& command, Files files);
  /// Notes and prints the machine. `threads`: of the CPU, 0 = all.
  void begin(Backend& backend, int threads);
  void set(const std::string& key, const nlohmann::json& value) { content_[key] = value; }
  /// Prints the headings; rows that are added from here on are printed.
  void print_header(Columns columns);
  /// Prints the row and writes the files but the chart, so that a table that is broken off keeps its rows.
  void add_row(const nlohmann::json& row);
  /// Notes the clocks, writes the files and draws the chart; may be called again.
  void complete();
  const nlohmann::json& content() const { return content_; }
  const nlohmann::json& rows() const { return content_["rows"]; }

 private:
  void write() const;

  Files files_;
  nlohmann::json content_;
  Columns columns_;
  Backend* backend_ = nullptr;
};

/// Rows as CSV: the columns are the keys of all rows, joined by dots for nested objects (`fprop.median`).
std::string csv_text(const nlohmann::json& rows);

/// Throws Fault::storage unless `file` can be written; does nothing for an empty one.
void check_writable(const std::filesystem::path& file);

/// `Intel(R) Xeon(R) Processor, 2 cores`
std::string processor_text();

/// Processor, compiler, commit and date (UTC).
nlohmann::json program_facts();

/// Backend, and for a GPU its name, driver, clocks, power and temperature by nvidia-smi now, or "unknown".
/// `machine` is machine_text's line.
nlohmann::json device_facts(const Backend& backend, const std::string& machine);

/// Both in two lines.
std::string facts_text(const nlohmann::json& facts);

/// The output of render.py with these arguments for a table as JSON. Throws a usage Error with the line that it ends
/// with if it fails, and where there is no python3.
std::string rendered(const std::vector<std::string>& arguments, const std::string& table);

/// Throws unless charts can be drawn.
void check_renderer();

class RowByRow {
 public:
  RowByRow() { listen_to_signals(); }

  /// Calls `work`, unless a signal came; prints an Error that it throws, and keeps the first.
  template <class Work>
  void make(Work&& work) {
    if (stop_is_requested()) return;
    try {
      work();
    } catch (const Error& error) {
      tell("\nleft out: {}\n", error.what());
      if (!first_) first_ = std::current_exception();
    }
  }
  /// Throws the first Error, if there was one.
  void raise() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

}  // namespace nixie::benchmark
