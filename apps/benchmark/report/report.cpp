// Collects the rows and writes them as JSON and as CSV.
#include "nixie/apps/benchmark/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "nixie/apps/benchmark/report/facts.h"
#include "nixie/core/base/error.h"
#include "nixie/models/io/durable_file.h"

namespace nixie::benchmark {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char letter : text) result += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return result + "\"";
}

using Cells = std::vector<std::pair<std::string, std::string>>;

void flatten(const nlohmann::json& value, const std::string& name, Cells& cells) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, cells);
  } else {
    cells.emplace_back(name, quoted(value.is_string() ? value.get<std::string>() : value.dump()));
  }
}

}  // namespace

Report::Report(const std::string& command, std::filesystem::path json, std::filesystem::path csv)
    : json_(std::move(json)), csv_(std::move(csv)), content_{{"command", command}, {"rows", nlohmann::json::array()}} {
  set_all(program_facts());
  check_writable(json_);
  check_writable(csv_);
}

void Report::add_row(const nlohmann::json& row) {
  content_["rows"].push_back(row);
  write();
}

void Report::write() const {
  write_file(json_, content_.dump(2) + '\n');
  write_file(csv_, csv_text(content_["rows"]));
}

std::string csv_text(const nlohmann::json& rows) {
  std::vector<Cells> table;
  std::vector<std::string> columns;
  for (const nlohmann::json& row : rows) {
    flatten(row, "", table.emplace_back());
    for (const auto& [column, value] : table.back())
      if (std::find(columns.begin(), columns.end(), column) == columns.end()) columns.push_back(column);
  }
  std::string text = fmt::format("{}\n", fmt::join(columns, ","));
  for (const Cells& cells : table) {
    std::vector<std::string> line;
    for (const std::string& column : columns) {
      const auto cell = std::find_if(cells.begin(), cells.end(), [&](const auto& c) { return c.first == column; });
      line.push_back(cell == cells.end() ? "" : cell->second);
    }
    text += fmt::format("{}\n", fmt::join(line, ","));
  }
  return text;
}

void check_writable(const std::filesystem::path& file) {
  if (file.empty()) return;
  const PendingFile probe(file, 0);  // is gone again, and what stands there stays
}

void write_file(const std::filesystem::path& file, const std::string& text) {
  if (file.empty()) return;
  PendingFile out(file, static_cast<std::int64_t>(text.size()));
  out.write(std::as_bytes(std::span(text)));
  out.sync();
  out.publish();
}

}  // namespace nixie::benchmark
