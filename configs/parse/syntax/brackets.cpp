// One pass over the characters. A bracket counts where a value may begin, or within others.
#include "nixie/configs/parse/syntax/brackets.h"

namespace nixie {

/// A list or map that is open, and its last entry.
struct Brackets::Open {
  std::size_t at;
  std::size_t entry = Lines::kNone, colon = Lines::kNone, end = Lines::kNone;  ///< of the entry: a bracket at its end
  std::size_t last_pair = Lines::kNone;  ///< the colon of the last pair, or the ] behind it
  std::size_t odd = Lines::kNone;
};

Brackets::Brackets(const Lines& lines) : lines_(lines) {
  std::vector<Open> open;
  bool may_begin = true;  // a value
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines.at(i) == '\n' && open.empty()) may_begin = true;
    if (lines.is_space(i)) continue;
    if (lines.is_comment(i)) {
      i = lines.row_end(i) - 1;
      continue;
    }
    const bool begins = may_begin, is_colon = lines.is_colon(i), is_comma = lines.at(i) == ',';
    may_begin = is_colon || (begins && lines.is_item(i)) || (is_comma && !open.empty());
    if (!open.empty() && !is_colon && !is_comma && !lines.is_any_of(i, "]}") && open.back().entry == Lines::kNone)
      open.back().entry = i;
    if (begins && lines.is_quote(i)) {
      const std::size_t end = lines.closing_quote(i);
      if (end != Lines::kNone) i = end;
    } else if (lines.is_any_of(i, "[{") && (begins || !open.empty())) {
      open.push_back({.at = i});
      all_.push_back({.at = i});
      may_begin = true;
    } else if (lines.is_any_of(i, "]}") && (begins || !open.empty() || lines.is_any_of(lines.last_before(i), "]},"))) {
      read_closing(i, open);
    } else if (is_comma && !open.empty()) {
      end_entry(open.back());
    } else if (is_colon && !open.empty() && open.back().colon == Lines::kNone) {
      open.back().colon = i;
    }
  }
}

void Brackets::end_entry(Open& inner) const {
  const bool is_list = lines_.at(inner.at) == '[', is_pair = inner.colon != Lines::kNone;
  if (inner.odd == Lines::kNone && inner.entry != Lines::kNone && is_list == is_pair)
    inner.odd = is_list ? inner.entry : inner.last_pair;
  if (is_pair) inner.last_pair = lines_.at(inner.end) == ']' ? inner.end : inner.colon;
  inner.entry = inner.colon = inner.end = Lines::kNone;
}

void Brackets::read_closing(std::size_t i, std::vector<Open>& open) {
  Bracket bracket{.at = i};
  if (!open.empty()) {
    end_entry(open.back());
    bracket.opening = open.back().at;
    bracket.odd = open.back().odd;
  }
  const auto fits = [&](std::size_t depth) {
    return open.size() >= depth && closing_of(lines_.at(open[open.size() - depth].at)) == lines_.at(i);
  };
  bracket.closes = fits(1) ? 1 : fits(2) ? 2 : 0;
  for (std::size_t closed = 0; closed < bracket.closes; ++closed) open.pop_back();
  if (bracket.closes > 0 && !open.empty()) open.back().end = i;
  all_.push_back(bracket);
}

std::vector<std::size_t> Brackets::open_at(std::size_t end) const {
  std::vector<std::size_t> open;
  for (const Bracket& bracket : all_) {
    if (bracket.at >= end) break;
    if (lines_.is_any_of(bracket.at, "[{")) open.push_back(bracket.at);
    open.resize(open.size() - bracket.closes);
  }
  return open;
}

bool Brackets::is_askew(const Bracket& bracket) const {
  const std::size_t row = lines_.first_of_row(bracket.at);
  if (bracket.opening == Lines::kNone || row != bracket.at || bracket.opening >= lines_.row_start(row)) return false;
  const std::size_t other = lines_.first_of_row(bracket.opening), depth = lines_.indent_of(row);
  return lines_.indent_of(other) != depth && lines_.indent_of(lines_.behind_dashes(other)) != depth;
}

}  // namespace nixie
