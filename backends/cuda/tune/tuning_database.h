// Which algorithm of a kernel measured fastest, by device and operation: a readable table, a line for each.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nixie::cuda {

/// A line of the table.
struct Tuned {
  std::string device = {};     ///< as the driver names it: "NVIDIA H200"
  std::string operation = {};  ///< KernelCode::operation
  std::string algorithm = {};  ///< the fastest, or the estimated one where none was clearly faster
  double microseconds = 0;
  std::string estimated_algorithm = {};  ///< what the estimate took
  double estimated_microseconds = 0;
  std::string date = {}, version = {};  ///< of the measurement, of nixie: "2026-11-21", "0.1.0"
  std::string place = {};               ///< the line, for errors: "tuning.tsv:7"; not written
};

/// Lines of tab-separated columns in the order above; empty ones and those that start with # are left out.
class TuningDatabase {
 public:
  /// Adds a table's lines; one of a device and operation that is known takes the place of the former.
  /// Throws Fault::usage for a line that is not one, naming `file` and the line.
  void read(std::string_view text, const std::string& file);
  /// Nullptr where nothing is known.
  const Tuned* find(const std::string& device, const std::string& operation) const;
  void keep(Tuned line);
  /// Adds a file's lines; none where there is no file. Throws Fault::usage also for one that cannot be read.
  void read_file(const std::filesystem::path& file);
  /// The table, sorted, under a line that names the columns.
  std::string text() const;
  std::size_t size() const { return lines_.size(); }

 private:
  std::map<std::pair<std::string, std::string>, Tuned> lines_;
};

/// Adds lines to those the file has by now, and writes it whole or not at all; comments are not kept. Throws
/// Fault::storage, and Fault::usage for a file that is no table, which is left as it is.
void add_to_file(const std::filesystem::path& file, const std::vector<Tuned>& lines);

}  // namespace nixie::cuda
