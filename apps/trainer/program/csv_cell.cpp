// Quotes are no protection: a spreadsheet reads what is in them as it reads other cells.
#include "nixie/apps/trainer/program/csv_cell.h"

#include <charconv>
#include <string_view>

#include "nixie/core/base/one_line.h"

namespace nixie {
namespace {

bool begins_formula(std::string_view text) {
  return !text.empty() && std::string_view("=+-@").find(text[0]) != std::string_view::npos;
}

bool is_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::string quoted_where_needed(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string csv_text(const std::string& text) {
  return quoted_where_needed((begins_formula(text) && !is_number(text) ? "'" : "") + one_line(text));
}

std::string csv_path(const std::string& path) {
  return quoted_where_needed((begins_formula(path) ? "./" : "") + one_line(path));
}

}  // namespace nixie
