// Collects the rows, prints them and writes them as JSON and as CSV.
#include "nixie/apps/benchmark/report/report.h"

#include <benchmark_commit.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <span>
#include <sstream>
#include <thread>

#include "nixie/apps/benchmark/report/render.h"
#include "nixie/apps/trainer/program/machine.h"
#include "nixie/apps/trainer/program/program.h"
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

void write_file(const std::filesystem::path& file, const std::string& text) {
  if (file.empty()) return;
  PendingFile out(file, static_cast<std::int64_t>(text.size()));
  out.write(std::as_bytes(std::span(text)));
  out.sync();
  out.publish();
}

std::string padded(const std::string& text, int width) {
  return width < 0 ? fmt::format("{:<{}} ", text, -width) : fmt::format("{:>{}} ", text, width);
}

/// "-" for what a row lacks, as the figures of a peer that there is not.
std::string cell_text(const Column& column, const nlohmann::json& row) {
  const nlohmann::json* value = &row;
  std::istringstream path(column.key);
  for (std::string part; std::getline(path, part, '.');) {
    if (!value->contains(part)) return "-";
    value = &value->at(part);
  }
  const auto format = fmt::runtime(column.format);
  if (value->is_object()) {
    const auto figure = [&](const char* key) { return column.unit * value->value(key, 0.0); };
    return fmt::format(format, figure("median"), figure("min"), figure("max"));
  }
  if (value->is_string()) return fmt::format(format, value->get<std::string>());
  if (value->is_number_float()) return fmt::format(format, column.unit * value->get<double>());
  return fmt::format(format, value->get<std::int64_t>());
}

std::string header_text(const Columns& columns) {
  std::string text;
  for (const Column& column : columns) text += padded(column.heading, column.width);
  return text + '\n';
}

/// The lines that a command prints; empty if it cannot run.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) text.append(buffer, got);
  return ::pclose(pipe) == 0 ? text : "";
}

}  // namespace

Report::Report(const std::string& command, Files files)
    : files_(std::move(files)), content_{{"command", command}, {"rows", nlohmann::json::array()}} {
  content_.update(program_facts());
  check_writable(files_.json);
  check_writable(files_.csv);
  check_writable(files_.plot);
  if (!files_.plot.empty()) check_renderer();
}

void Report::begin(Backend& backend, int threads) {
  backend_ = &backend;
  content_.update(device_facts(backend, machine_text(backend, threads)));
  tell("{}", facts_text(content_));
}

void Report::print_header(Columns columns) {
  columns_ = std::move(columns);
  tell("{}", header_text(columns_));
}

void Report::add_row(const nlohmann::json& row) {
  content_["rows"].push_back(row);
  write();
  if (columns_.empty()) return;
  tell("{}", row_text(columns_, row));
  std::fflush(stdout);
}

void Report::complete() {
  if (backend_) content_["clocks_after"] = device_facts(*backend_, "");
  write();
  if (!files_.plot.empty()) write_file(files_.plot, chart_of(content_.dump()));
}

void Report::write() const {
  write_file(files_.json, content_.dump(2) + '\n');
  write_file(files_.csv, csv_text(content_["rows"]));
}

std::string row_text(const Columns& columns, const nlohmann::json& row) {
  std::string text;
  for (const Column& column : columns) text += padded(cell_text(column, row), column.width);
  return text + '\n';
}

std::string table_text(const Columns& columns, const nlohmann::json& rows) {
  std::string text = header_text(columns);
  for (const nlohmann::json& row : rows) text += row_text(columns, row);
  return text;
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
  const PendingFile probe(file, 0);  // is removed again; the file that is there stays
}

std::string processor_text() {
  return fmt::format("{}, {} cores", processor_name(), std::thread::hardware_concurrency());
}

nlohmann::json program_facts() {
  return {{"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
          {"processor", processor_text()},
          {"compiler", __VERSION__},
          {"commit", NIXIE_COMMIT}};
}

nlohmann::json device_facts(const Backend& backend, const std::string& machine) {
  nlohmann::json facts{{"backend", backend.name()}, {"program", machine}};
  if (backend.name() != "cuda") return facts;
  static constexpr const char* kAsked[][2] = {{"device", "name"},
                                              {"driver", "driver_version"},
                                              {"sm_clock", "clocks.sm"},
                                              {"memory_clock", "clocks.mem"},
                                              {"power", "power.draw"},
                                              {"power_limit", "power.limit"},
                                              {"temperature", "temperature.gpu"}};
  std::string query;
  for (const auto& [key, field] : kAsked) query += (query.empty() ? "" : ",") + std::string(field);
  const std::string answer = output_of("nvidia-smi --format=csv,noheader --query-gpu=" + query);
  std::istringstream first(answer.substr(0, answer.find('\n')));  // a line per device
  for (const auto& [key, field] : kAsked) {
    std::string value;
    std::getline(first >> std::ws, value, ',');
    facts[key] = value.empty() ? "unknown" : value;
  }
  return facts;
}

std::string facts_text(const nlohmann::json& facts) {
  const auto get = [&](const char* key) { return facts.value(key, std::string("unknown")); };
  std::string text = fmt::format("{}, {}\n", get("processor"), get("program"));
  if (facts.contains("device"))
    text += fmt::format("{}, driver {}, SM clock {}, memory clock {}, {} of {}\n", get("device"), get("driver"),
                        get("sm_clock"), get("memory_clock"), get("power"), get("power_limit"));
  return text + fmt::format("commit {}, {}\n", get("commit"), get("date"));
}

}  // namespace nixie::benchmark
