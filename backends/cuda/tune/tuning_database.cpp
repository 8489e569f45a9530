// Reads and writes tables of measured choices.
#include "nixie/backends/cuda/tune/tuning_database.h"

#include <unistd.h>

#include <charconv>
#include <fstream>

#include "nixie/core/base/error.h"

namespace nixie::cuda {
namespace {

constexpr std::size_t kColumns = 8;
constexpr const char* kHeading = "# device\toperation\talgorithm\tus\testimated algorithm\tits us\tdate\tnixie";

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (std::size_t end; (end = text.find(at)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.emplace_back(text.substr(0, end));
  parts.emplace_back(text);
  return parts;
}

double microseconds_of(const std::string& column, const std::string& place) {
  double value = 0;
  const char* end = column.data() + column.size();
  const auto result = std::from_chars(column.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !(value > 0))
    fail(Fault::usage, place, ": \"", column, "\" is no time in microseconds");
  return value;
}

Tuned line_from(const std::string& text, const std::string& place) {
  std::vector<std::string> columns = split(text, '\t');
  if (columns.size() != kColumns)
    fail(Fault::usage, place, ": ", columns.size(), " columns, expected ", kColumns, " between tabs: ", kHeading + 2);
  for (const std::string& column : columns)
    if (column.empty()) fail(Fault::usage, place, ": a column is empty");
  return {.device = columns[0],
          .operation = columns[1],
          .algorithm = columns[2],
          .microseconds = microseconds_of(columns[3], place),
          .estimated_algorithm = columns[4],
          .estimated_microseconds = microseconds_of(columns[5], place),
          .date = columns[6],
          .version = columns[7],
          .place = place};
}

}  // namespace

void TuningDatabase::read(std::string_view text, const std::string& file, bool is_shipped) {
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    Tuned tuned = line_from(line, fmt::format("{}:{}", file, number));
    tuned.is_shipped = is_shipped;
    keep(std::move(tuned));
  }
}

void TuningDatabase::read_file(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file, ignored))
    fail(Fault::usage, file.string(), ": this table cannot be read; make it a readable file, or remove it");
  read(std::string{std::istreambuf_iterator<char>(in), {}}, file.string());
}

const Tuned* TuningDatabase::find(const std::string& device, const std::string& operation) const {
  const auto found = lines_.find({device, operation});
  return found == lines_.end() ? nullptr : &found->second;
}

void TuningDatabase::keep(Tuned line) {
  std::pair key(line.device, line.operation);
  lines_.insert_or_assign(std::move(key), std::move(line));
}

std::string TuningDatabase::text() const {
  std::string text = std::string(kHeading) + "\n";
  for (const auto& [key, line] : lines_)
    text +=
        fmt::format("{}\t{}\t{}\t{:.1f}\t{}\t{:.1f}\t{}\t{}\n", line.device, line.operation, line.algorithm,
                    line.microseconds, line.estimated_algorithm, line.estimated_microseconds, line.date, line.version);
  return text;
}

void add_to_file(const std::filesystem::path& file, const std::vector<Tuned>& lines) {
  TuningDatabase table;
  table.read_file(file);
  for (const Tuned& line : lines) table.keep(line);
  const std::filesystem::path temporary = file.string() + fmt::format(".tmp.{}", getpid());
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << table.text();
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(temporary, file, error);
  if (out && !error) return;
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  fail(Fault::storage, file.string(), ": what was measured cannot be written; set NIXIE_CACHE to a folder of your own");
}

}  // namespace nixie::cuda
