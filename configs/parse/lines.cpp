// What takes more than a row to be found.
#include "nixie/configs/parse/lines.h"

namespace nixie {

bool Lines::is_only(std::size_t i, std::string_view characters) const {
  const std::size_t end = std::min(text_.find_first_not_of(characters, i), size());
  return end >= row_end(i) || is_comment(end);
}

bool Lines::goes_on_with_brackets(std::size_t i, std::size_t indent) const {
  if (is_any_of(i, "[]{},")) return true;
  for (int depth = 0; i < size() && (indent_of(i) > indent || is_any_of(i, "]}")); i = next_content(i))
    for (std::size_t k = i; at(k) != '\n' && !is_comment(k); ++k) {
      depth += is_any_of(k, "[{") - is_any_of(k, "]}");
      if (depth < 0) return true;
    }
  return false;
}

std::size_t Lines::colon_in_row(std::size_t i) const {
  for (const std::size_t end = row_end(i); i < end && !is_comment(i); ++i)
    if (is_colon(i)) return i;
  return kNone;
}

std::size_t Lines::behind_dashes(std::size_t i) const {
  while (is_item(i)) i = behind_blanks(i + 1);
  return i;
}

bool Lines::is_empty_key(std::size_t i) const {
  const std::size_t colon = colon_in_row(i), behind = behind_blanks(colon + 1);
  return colon != kNone && (at(behind) == '\n' || is_comment(behind));
}

std::size_t Lines::next_content(std::size_t i) const {
  for (i = row_end(i) + 1; i < size(); i = row_end(i) + 1)
    if (const std::size_t first = behind_blanks(i); at(first) != '\n' && at(first) != '#') return first;
  return size();
}

std::size_t Lines::next_outside(std::size_t i, std::size_t indent) const {
  do i = next_content(i);
  while (i < size() && indent_of(i) > indent);
  return i;
}

std::size_t Lines::last_content(std::size_t i) const {
  for (i = row_start(i); i > 0;) {
    i = row_start(i - 1);
    if (const std::size_t first = behind_blanks(i); at(first) != '\n' && at(first) != '#') return first;
  }
  return 0;
}

std::size_t Lines::closing_quote(std::size_t start) const {
  const char quote = text_[start];
  std::size_t end = start + 1;
  for (; end < size(); ++end) {
    const bool is_escape = quote == '"' ? text_[end] == '\\' : text_.substr(end, 2) == "''";
    if (is_escape)
      ++end;
    else if (text_[end] == quote)
      break;
  }
  if (end >= size()) return kNone;
  const bool is_in_row = text_.substr(start, end - start).find('\n') == kNone;
  const bool goes_on = !is_any_of(behind_blanks(end + 1), ":,]}#\n");
  return is_in_row || !goes_on ? end : kNone;
}

}  // namespace nixie
