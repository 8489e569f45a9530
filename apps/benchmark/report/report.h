// Report: the files of a table, with the conditions of its measurement.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace nixie::benchmark {

class Report {
 public:
  /// Throws Fault::storage if a file cannot be written (empty: no file), so that this is known before the work.
  Report(const std::string& command, std::filesystem::path json, std::filesystem::path csv = {});
  void set(const std::string& key, const nlohmann::json& value) { content_[key] = value; }
  /// Adds the facts of an object.
  void set_all(const nlohmann::json& facts) { content_.update(facts); }
  /// Writes the files, too, so that a table that is broken off keeps its rows.
  void add_row(const nlohmann::json& row);
  const nlohmann::json& content() const { return content_; }
  /// Replaces the files' content. Throws Fault::storage.
  void write() const;

 private:
  std::filesystem::path json_, csv_;
  nlohmann::json content_;
};

/// Rows as CSV: the columns are the keys of all rows, joined by dots for nested objects (`fprop.median`).
std::string csv_text(const nlohmann::json& rows);

/// Throws Fault::storage unless `file` can be written; does nothing for an empty one.
void check_writable(const std::filesystem::path& file);
/// Replaces a file's content; does nothing for an empty one. Throws Fault::storage.
void write_file(const std::filesystem::path& file, const std::string& text);

}  // namespace nixie::benchmark
