// Mistakes in a text before yaml-cpp reads it, and remedies for yaml-cpp's errors.
#include "nixie/configs/parse/syntax/mistake.h"

#include <fmt/format.h>
#include <yaml-cpp/exceptions.h>

#include <algorithm>

namespace nixie {
namespace {

std::string_view row_at(std::string_view text, std::size_t start) {
  return text.substr(start, text.find('\n', start) - start);
}

std::size_t behind_row(std::string_view text, std::size_t start) {
  return std::min(start + row_at(text, start).size() + 1, text.size());
}

/// UTF-16 or UTF-32, by a byte order mark or by the zeros around a first character of ASCII; nullptr for neither.
const char* other_encoding(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return "UTF-16";
  std::string zeros;
  for (const char c : text.substr(0, 4)) zeros += c == 0 ? '0' : 'x';
  if (zeros == "x000" || zeros == "000x") return "UTF-32";
  return zeros == "x0x0" || zeros == "0x0x" ? "UTF-16" : nullptr;
}

/// A line in front of the document that begins with % and is no %YAML and no %TAG: yaml-cpp skips it.
std::optional<Mistake> unknown_directive(std::string_view text) {
  const std::size_t end = end_of_head(text);
  for (std::size_t start = 0; start < end; start = behind_row(text, start))
    if (const auto row = row_at(text, start);
        row.starts_with('%') && !row.starts_with("%YAML ") && !row.starts_with("%TAG "))
      return mistake_at(text, start, kNoDirective);
  return std::nullopt;
}

}  // namespace

Mistake mistake_at(std::string_view text, std::size_t at, std::string what) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_end = before.rfind('\n');
  const std::size_t line_start = line_end == std::string_view::npos ? 0 : line_end + 1;
  const std::string_view row = before.substr(line_start);
  const auto inside = std::count_if(row.begin(), row.end(), is_inside_character);
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(static_cast<std::ptrdiff_t>(row.size()) - inside) + 1, std::move(what)};
}

std::string never_closed(char quote) { return fmt::format("this {} is never closed", quote); }

std::size_t end_of_head(std::string_view text) {
  std::size_t start = 0;
  for (; start < text.size(); start = behind_row(text, start)) {
    const std::string_view row = row_at(text, start);
    const std::size_t first = row.find_first_not_of(' ');
    if (first != std::string_view::npos && row[first] != '#' && row[0] != '%') break;
  }
  return start;
}

std::string normalized(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_pair = text.substr(i, 2) == "\r\n";
    if (!is_pair) result += text[i] == '\r' ? '\n' : text[i];
  }
  return result;
}

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

std::optional<Mistake> find_unreadable(std::string_view text) {
  if (const char* encoding = other_encoding(text))
    return mistake_at(text, 0, fmt::format("{} text, expected UTF-8", encoding));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && text[i] != '\n' && text[i] != '\t') || byte == 0x7f)
      return mistake_at(text, i, fmt::format("a control character (0x{:02x}), expected UTF-8 text", byte));
  }
  return unknown_directive(text);
}

std::string with_remedy(const std::string& message) {
  using namespace YAML::ErrorMsg;
  static const std::pair<const char*, const char*> kRemedies[] = {
      {MAP_VALUE, "expected one `key: value` in a line, indented as the lines beside it"},
      {MAP_KEY, "expected `key: value`, indented as the lines beside it"},
      {END_OF_MAP, "expected `key: value`, indented as the lines beside it"},
      {END_OF_SEQ, "expected `- item`, indented as the items beside it"},
      {END_OF_MAP_FLOW, "expected `,` or } here"},
      {END_OF_SEQ_FLOW, "expected `,` or ] here"},
      {FLOW_END, "expected a value here, or no closing bracket"},
      {BLOCK_ENTRY, "expected `- ` at the start of a line, as deep as the items beside it, or [a, b] in one line"},
      {UNKNOWN_TOKEN, "expected quotes around a text that begins with @, ` or %"},
      {INVALID_HEX, "expected hexadecimal digits behind \\x, \\u or \\U; in single quotes a \\ is itself"},
      {INVALID_ESCAPE, "expected \\\\ for a \\, or single quotes, in which it is itself"},
      {INVALID_UNICODE, "expected the number of a character behind \\u or \\U"},
      {DOC_IN_SCALAR, "expected the quote that ends the text in front of it"},
      {ALIAS_NOT_FOUND, "expected *NAME, or quotes around a text that begins with *"},
      {ANCHOR_NOT_FOUND, "expected &NAME, or quotes around a text that begins with &"},
      {CHAR_IN_ALIAS, "expected *NAME of letters and digits, or quotes around a text that begins with *"},
      {CHAR_IN_ANCHOR, "expected &NAME of letters and digits, or quotes around a text that begins with &"},
      {UNKNOWN_ANCHOR, "expected &NAME in front of a value above, or quotes around a text that begins with *"},
      {ZERO_INDENT_IN_BLOCK, "expected a digit from 1 to 9 behind | or >, or none"},
      {CHAR_IN_BLOCK, "expected the text in the lines below | or >"},
  };
  for (const auto& [start, remedy] : kRemedies)
    if (message.starts_with(start)) return message + ", " + remedy;
  return message;
}

}  // namespace nixie
