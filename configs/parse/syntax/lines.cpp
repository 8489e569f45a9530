// Everything that takes more than a character to be found.
#include "nixie/configs/parse/syntax/lines.h"

namespace nixie {

std::size_t Lines::next_row(std::size_t i) const {
  for (i = row_end(i) + 1; i < size(); i = row_end(i) + 1)
    if (is_content(behind_blanks(i))) return behind_blanks(i);
  return size();
}

std::size_t Lines::next_outside(std::size_t i, std::size_t indent) const {
  do i = next_row(i);
  while (i < size() && indent_of(i) > indent);
  return i;
}

std::size_t Lines::row_above(std::size_t i) const {
  for (i = row_start(i); i > 0;) {
    i = row_start(i - 1);
    if (is_content(behind_blanks(i))) return behind_blanks(i);
  }
  return kNone;
}

std::vector<std::size_t> Lines::rows_down_to(int line) const {
  std::vector<std::size_t> all, rows;
  std::size_t end = 0;
  for (int i = 0; i < line && end < size(); ++i) end = row_end(end) + 1;
  for (std::size_t row = first_row(); row < std::min(end, size()); row = next_row(row)) all.push_back(row);
  std::size_t depth = kNone, block = kNone;  // the first of the least deep rows in a deeper block
  bool is_beside = true;
  const auto end_block = [&] {
    if (block != kNone && rows.back() != block) rows.push_back(block);
    block = kNone;
  };
  for (auto row = all.rbegin(); row != all.rend(); ++row) {
    const bool is_outside = indent_of(*row) <= depth;
    if (is_outside) {
      end_block();
      depth = indent_of(*row);
    } else if (block == kNone || indent_of(*row) <= indent_of(block)) {
      block = *row;
    }
    const bool goes_on = text_.substr(*row, row_end(*row) - *row).find_first_of("[]{}\"'") != kNone;
    if (is_outside || is_beside || goes_on) rows.push_back(*row);
    is_beside = is_outside;
  }
  end_block();
  return rows;
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

bool Lines::is_empty_key(std::size_t row) const {
  const std::size_t colon = colon_in_row(row);
  return colon != kNone && colon + 1 == end_of_text(row);
}

std::size_t Lines::end_of_text(std::size_t i) const {
  std::size_t end = i;
  for (; i < row_end(i) && !is_comment(i); ++i)
    if (!is_space(i)) end = i + 1;
  return end;
}

std::size_t Lines::last_before(std::size_t i) const { return i == 0 ? kNone : text_.find_last_not_of(" \t\n", i - 1); }

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
