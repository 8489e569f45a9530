// Collects the rows, prints them and writes them as JSON and as CSV. render.py is an argument of python3 -c, which
// reads the table from its standard input.
#include "nixie/apps/benchmark/report/report.h"

#include <benchmark_commit.h>
#include <benchmark_render.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <sstream>
#include <thread>

#include "nixie/apps/trainer/program/csv_cell.h"
#include "nixie/apps/trainer/program/machine.h"
#include "nixie/apps/trainer/program/subprocess.h"
#include "nixie/apps/trainer/record/run_folder.h"
#include "nixie/models/io/durable_file.h"

namespace nixie::benchmark {
namespace {

std::string read_all(int from) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(from, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR);)
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

std::string last_line(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

using Cells = std::vector<std::pair<std::string, std::string>>;

void flatten(const nlohmann::json& value, const std::string& name, Cells& cells) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, cells);
  } else {
    cells.emplace_back(name, quoted_where_needed(value.is_string() ? value.get<std::string>() : value.dump()));
  }
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
  if (!files_.plot.empty()) write_text(files_.plot, rendered({"-", "--plot", "-"}, content_.dump()));
}

void Report::write() const {
  if (!files_.json.empty()) write_text(files_.json, content_.dump(2) + '\n');
  if (!files_.csv.empty()) write_text(files_.csv, csv_text(content_["rows"]));
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

std::string rendered(const std::vector<std::string>& arguments, const std::string& table) {
  std::vector<std::string> words{"python3", "-c", kRenderScript};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Child child = start_child("python3", [&](int in, int out) { become_program(words, in, out, out); });
  child.send(table);
  ::close(std::exchange(child.to, -1));
  const std::string text = read_all(child.from);
  const int status = child.wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted)
    fail(Fault::usage,
         "python3 cannot be started, which makes charts, pages and the summary of a sweep; install it, or go without: "
         "no --plot, a sweep with --alone");
  if (status != 0) fail(Fault::usage, last_line(text));
  return text;
}

void check_renderer() { rendered({"--help"}, ""); }

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
