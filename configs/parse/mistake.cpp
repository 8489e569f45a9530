// Finds where a text is no YAML: one pass for tabs, one that pairs brackets and quotes; both as loosely as YAML reads
// them. Lines end with \n (normalized).
#include "nixie/configs/parse/mistake.h"

#include <fmt/format.h>
#include <yaml-cpp/exceptions.h>

#include <algorithm>
#include <vector>

namespace nixie {
namespace {

Mistake mistake_at(std::string_view text, std::size_t at, std::string what) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_end = before.rfind('\n');
  const std::size_t line_start = line_end == std::string_view::npos ? 0 : line_end + 1;
  const std::string_view row = before.substr(line_start);
  const auto inside = std::count_if(row.begin(), row.end(), is_inside_character);
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(static_cast<std::ptrdiff_t>(row.size()) - inside) + 1, std::move(what)};
}

std::optional<Mistake> tab_in_indentation(std::string_view text) {
  for (std::size_t start = 0; start < text.size();) {
    std::size_t at = start;
    while (at < text.size() && text[at] == ' ') ++at;
    if (at < text.size() && text[at] == '\t') return mistake_at(text, at, "a tab in the indentation, expected spaces");
    const std::size_t end = text.find('\n', start);
    start = end == std::string_view::npos ? text.size() : end + 1;
  }
  return std::nullopt;
}

/// The end of a quoted text that begins at `at`; npos where it has none.
std::size_t closing_quote(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    const bool is_escape = quote == '"' ? text[i] == '\\' : text.substr(i, 2) == "''";
    if (is_escape)
      ++i;
    else if (text[i] == quote)
      return i;
  }
  return std::string_view::npos;
}

/// Whether what stands at `at` begins a value or a key, and does not go on with a text without quotes.
bool begins_value(std::string_view text, std::size_t at) {
  const std::size_t last = at == 0 ? std::string_view::npos : text.find_last_not_of(" \t", at - 1);
  if (last == std::string_view::npos || std::string_view("\n,[{:").find(text[last]) != std::string_view::npos)
    return true;
  if (last + 1 == at) return false;
  const char first = text[text.find_last_of(" \t\n,[{:", last) + 1];  // of the word before
  return text[last] == '-' || text[last] == '?' || first == '&' || first == '!';
}

char closing(char bracket) { return bracket == '{' ? '}' : ']'; }

std::optional<Mistake> unpaired(std::string_view text) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool starts_word = i == 0 || std::string_view(" \t\n,[{:").find(text[i - 1]) != std::string_view::npos;
    if ((c == '"' || c == '\'') && begins_value(text, i)) {
      const std::size_t end = closing_quote(text, i);
      if (end == std::string_view::npos) return mistake_at(text, i, fmt::format("this {} is never closed", c));
      i = end;
    } else if (c == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n')) {
      i = std::min(text.find('\n', i), text.size());
    } else if ((c == '{' || c == '[') && (starts_word || !open.empty())) {
      open.push_back(i);
    } else if ((c == '}' || c == ']') && !open.empty()) {
      const char wanted = closing(text[open.back()]);
      if (c != wanted) return mistake_at(text, i, fmt::format("{} where {} is expected", c, wanted));
      open.pop_back();
    }
  }
  if (open.empty()) return std::nullopt;
  const char bracket = text[open.back()];
  return mistake_at(text, open.back(), fmt::format("this {} is never closed, expected {}", bracket, closing(bracket)));
}

constexpr const char* kNoColon = "no `: ` in this line, expected `key: value`";

/// Where a line begins, counted from 1; nothing behind the last.
std::optional<std::size_t> start_of(std::string_view text, int line) {
  std::size_t start = 0;
  for (int passed = 1; passed < line; ++passed) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string_view::npos) return std::nullopt;
    start = end + 1;
  }
  return start;
}

/// Whether a row holds a key and its colon, in front of its comment.
bool is_pair(std::string_view row) {
  row = row.substr(0, row.find(" #"));
  return row.find(": ") != std::string_view::npos || row.ends_with(':');
}

/// A line in front of the document that begins with % and is no %YAML and no %TAG: yaml-cpp skips it.
std::optional<Mistake> unknown_directive(std::string_view text) {
  for (std::size_t start = 0; start < text.size(); start = std::min(text.find('\n', start), text.size() - 1) + 1) {
    const std::string_view row = text.substr(start, text.find('\n', start) - start);
    const std::size_t first = row.find_first_not_of(' ');
    if (first == std::string_view::npos || row[first] == '#') continue;
    if (row[0] != '%') return std::nullopt;
    if (!row.starts_with("%YAML ") && !row.starts_with("%TAG "))
      return mistake_at(text, start, "this line begins with %, expected `key: value` or # in front of a comment");
  }
  return std::nullopt;
}

}  // namespace

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
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return mistake_at(text, 0, "UTF-16 text, expected UTF-8");
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

std::optional<Mistake> find_mistake(std::string_view text) {
  const std::optional<Mistake> tab = tab_in_indentation(text);
  return tab ? tab : unpaired(text);
}

std::optional<Mistake> find_line_without_colon(std::string_view text, int line) {
  const std::optional<std::size_t> start = start_of(text, line);
  if (!start) return std::nullopt;
  const std::string_view row = text.substr(*start, text.find('\n', *start) - *start);
  const std::size_t indent = row.find_first_not_of(' ');
  const std::string_view kNoText = "#-[]{}&*!|>%@`";  // which begin something else than a key
  if (indent == std::string_view::npos || kNoText.find(row[indent]) != std::string_view::npos || is_pair(row))
    return std::nullopt;
  return mistake_at(text, *start + indent, kNoColon);
}

std::optional<Mistake> find_missing_colon(std::string_view text, int line) {
  const std::optional<std::size_t> below = start_of(text, line);
  if (!below) return std::nullopt;
  std::size_t end = *below;  // of the lines before
  const std::size_t deepest = text.find_first_not_of(' ', end) - end;
  std::optional<std::size_t> found, deeper;  // deeper: the indentation of a line above that ends an inner map
  bool is_in_map = false;                    // a pair stands above it; else it goes on with a text
  while (end > 0) {
    const std::size_t start = end == 1 ? 0 : text.rfind('\n', end - 2) + 1;
    const std::string_view row = text.substr(start, end - 1 - start);
    end = start;
    const std::size_t indent = row.find_first_not_of(' ');
    if (indent == std::string_view::npos) continue;
    const bool is_item = row.substr(indent).starts_with("- "), is_comment = row[indent] == '#';
    if (deeper) {
      is_in_map = is_pair(row) && indent == *deeper;
      break;
    }
    if (is_pair(row) || is_item || is_comment) break;
    if (indent > deepest) {
      if (found) break;
      deeper = indent;
    }
    found = start + indent;
  }
  if (!found || (deeper && !is_in_map)) return std::nullopt;
  return mistake_at(text, *found, kNoColon);
}

}  // namespace nixie
