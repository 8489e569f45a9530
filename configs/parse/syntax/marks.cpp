// Lines are found by where they start, characters by their number.
#include "nixie/configs/parse/syntax/marks.h"

#include <algorithm>

namespace nixie {

Marks::Marks(Source source, std::string_view text, bool is_flag) : source_(std::move(source)), is_flag_(is_flag) {
  starts_.push_back(0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    characters_.push_back(characters_.empty() ? 0 : characters_.back() + !is_inside_character(text[i]));
    if (text[i] == '\n') starts_.push_back(i + 1);
  }
}

Place Marks::at(const YAML::Mark& mark) const {
  if (is_flag_) return start();
  const std::size_t byte = byte_of(mark);
  const bool is_inside = byte < characters_.size();
  const int column =
      is_inside ? characters_[byte] - characters_[starts_[static_cast<std::size_t>(mark.line)]] : mark.column;
  return {source_, mark.line + 1, column + 1};
}

std::size_t Marks::byte_of(const YAML::Mark& mark) const {
  const auto line = static_cast<std::size_t>(mark.line), bytes = static_cast<std::size_t>(mark.column);
  return line < starts_.size() ? std::min(starts_[line] + bytes, characters_.size()) : characters_.size();
}

YAML::Mark Marks::mark_of(std::size_t byte) const {
  const auto line = std::upper_bound(starts_.begin(), starts_.end(), byte) - 1;
  YAML::Mark mark;
  mark.pos = static_cast<int>(byte);
  mark.line = static_cast<int>(line - starts_.begin());
  mark.column = static_cast<int>(byte - *line);
  return mark;
}

}  // namespace nixie
