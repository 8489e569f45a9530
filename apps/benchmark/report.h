// The file that a table is written to, with what makes figures comparable: machine, program and date.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace nixie::benchmark {

class Report {
 public:
  /// Throws Fault::storage where the file cannot be written (empty: there is none): before the work, not after it.
  Report(const std::string& command, const std::filesystem::path& file);
  void set(const std::string& key, const nlohmann::json& value) { content_[key] = value; }
  void add_row(const nlohmann::json& row) { content_["rows"].push_back(row); }
  /// Replaces the file's content.
  void write() const;

 private:
  std::filesystem::path file_;
  nlohmann::json content_;
};

/// `Intel(R) Xeon(R) Processor, 2 cores`
std::string processor_text();

}  // namespace nixie::benchmark
