// Finds where a text is no YAML: one pass for tabs, one that pairs brackets and quotes; both as loosely as YAML reads
// them.
#include "nixie/configs/parse/mistake.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace nixie {
namespace {

Mistake mistake_at(std::string_view text, std::size_t at, std::string what) {
  const std::string_view before = text.substr(0, at);
  const std::size_t line_end = before.rfind('\n');
  const std::size_t line_start = line_end == std::string_view::npos ? 0 : line_end + 1;
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1, static_cast<int>(at - line_start) + 1,
          std::move(what)};
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

char closing(char bracket) { return bracket == '{' ? '}' : ']'; }

std::optional<Mistake> unpaired(std::string_view text) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool starts_word = i == 0 || std::string_view(" \t\n,[{:").find(text[i - 1]) != std::string_view::npos;
    if ((c == '"' || c == '\'') && starts_word) {
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
  return row.find(": ") != std::string_view::npos || row.ends_with(':') || row.ends_with(":\r");
}

}  // namespace

bool is_quote_closed(std::string_view text, std::size_t character) {
  std::size_t at = 0;
  const auto is_inside_character = [&] {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  for (; character > 0 && at < text.size(); --character) {
    ++at;
    while (is_inside_character()) ++at;
  }
  const bool is_quote = at < text.size() && (text[at] == '"' || text[at] == '\'');
  return !is_quote || closing_quote(text, at) != std::string_view::npos;
}

std::optional<Mistake> find_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && text[i] != '\n' && text[i] != '\t' && text[i] != '\r') || byte == 0x7f)
      return mistake_at(text, i, fmt::format("a control character (0x{:02x}), expected UTF-8 text", byte));
  }
  return std::nullopt;
}

std::optional<Mistake> find_mistake(std::string_view text) {
  const std::optional<Mistake> tab = tab_in_indentation(text);
  return tab ? tab : unpaired(text);
}

std::optional<Mistake> find_line_without_colon(std::string_view text, int line) {
  const std::optional<std::size_t> start = start_of(text, line);
  if (!start) return std::nullopt;
  const std::string_view row = text.substr(*start, text.find('\n', *start) - *start);
  const std::size_t indent = row.find_first_not_of(" \r");
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
    const std::size_t indent = row.find_first_not_of(" \r");
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
