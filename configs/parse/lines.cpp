// What takes more than a row to be found.
#include "nixie/configs/parse/lines.h"

namespace nixie {

std::size_t Lines::colon_in_row(std::size_t i) const {
  for (const std::size_t end = row_end(i); i < end && !is_comment(i); ++i)
    if (is_colon(i)) return i;
  return kNone;
}

std::size_t Lines::next_content(std::size_t i) const {
  for (i = row_end(i) + 1; i < size(); i = row_end(i) + 1)
    if (const std::size_t first = behind_blanks(i); at(first) != '\n' && at(first) != '#') return first;
  return size();
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
