// The fastest measured algorithm by device and operation: a readable table with a line for each.
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
  std::string algorithm = {};  ///< the fastest, or the estimate's if none was clearly faster
  double microseconds = 0;
  std::string estimated_algorithm = {};  ///< the estimate's choice
  double estimated_microseconds = 0;
  std::string date = {}, version = {};  ///< of the measurement and of nixie: "2026-11-21", "0.1.0"
  std::string place = {};               ///< the line, for errors: "tuning.tsv:7"; not written
  bool is_shipped = false;              ///< of a table that is built in; not written
};

/// Lines of tab-separated columns in the order above; empty lines and those that start with # are skipped.
class TuningDatabase {
 public:
  /// Adds a table's lines; a line replaces an earlier one of the same device and operation.
  /// Throws Fault::usage for a malformed line, naming `file` and the line.
  void read(std::string_view text, const std::string& file, bool is_shipped = false);
  /// Nullptr if there is no line.
  const Tuned* find(const std::string& device, const std::string& operation) const;
  void keep(Tuned line);
  /// Adds a file's lines; none if there is no file. Also throws Fault::usage if it cannot be read.
  void read_file(const std::filesystem::path& file);
  /// The table, sorted, with a header line.
  std::string text() const;
  std::size_t size() const { return lines_.size(); }

 private:
  std::map<std::pair<std::string, std::string>, Tuned> lines_;
};

/// Adds lines to the file's present ones and writes it atomically; comments are not kept. Throws
/// Fault::storage, and Fault::usage for a file that is no table, which stays unchanged.
void add_to_file(const std::filesystem::path& file, const std::vector<Tuned>& lines);

}  // namespace nixie::cuda
