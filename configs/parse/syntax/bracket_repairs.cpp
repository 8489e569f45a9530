// A bracket is missing where one that closes it fits, or too many where the text can be read without it.
#include <fmt/format.h>

#include "nixie/configs/parse/syntax/repair.h"

namespace nixie {
namespace {

constexpr std::size_t kNone = Lines::kNone;
constexpr const char* kNoComma = "no `,` between this and what follows, expected `,` behind each value but the last";

std::string ends_early(char bracket) {
  return fmt::format("the brackets end before a line that goes on with them, expected no {} here", bracket);
}

class BracketRepairs {
 public:
  BracketRepairs(const Lines& lines, const Brackets& brackets, std::size_t row, Repairs& repairs)
      : lines_(lines), brackets_(brackets), row_(row), end_(lines.end_of_text(row)), repairs_(repairs) {}

  void add() {
    const std::vector<std::size_t> open = brackets_.open_at(lines_.row_end(row_));
    const bool ends_with_comma = lines_.at(end_ - 1) == ',';
    if (open.empty() && ends_with_comma)
      for (const char closing : {'}', ']'}) add_key_of(closing);
    for (const Bracket& bracket : brackets_.all())
      if (is_in_row(bracket) && lines_.is_any_of(bracket.at, "]}")) add_closing(bracket);
    if (!open.empty() || brackets_.are_around(row_)) add_entries();
    std::string closing;
    for (auto bracket = open.rbegin(); bracket != open.rend(); ++bracket) {
      closing += closing_of(lines_.at(*bracket));
      repairs_.insert(end_ - ends_with_comma, closing, open.back(), never_closed(open.back()));
    }
    for (const Bracket& bracket : brackets_.all())
      if (is_in_row(bracket) && lines_.is_any_of(bracket.at, "[{"))
        repairs_.erase(bracket.at, 1, bracket.at, never_closed(bracket.at));
  }

 private:
  bool is_in_row(const Bracket& bracket) const { return bracket.at >= row_ && bracket.at < end_; }
  std::string never_closed(std::size_t opening) const {
    return fmt::format("this {} is never closed, expected {}", lines_.at(opening), closing_of(lines_.at(opening)));
  }

  void add_closing(const Bracket& bracket) {
    const std::size_t i = bracket.at;
    if (lines_.at(i + 1) == lines_.at(i)) return;  // the last of several counts
    if (bracket.opening == kNone) {
      add_surplus(bracket);
    } else if (bracket.closes == 1) {
      if (brackets_.is_askew(bracket))
        repairs_.insert(i, {closing_of(lines_.at(bracket.opening))}, bracket.opening, never_closed(bracket.opening));
      add_end(bracket);
    } else {
      add_other(bracket);
    }
  }
  /// One that does not fit the one that is open.
  void add_other(const Bracket& bracket) {
    const std::size_t i = bracket.at, opening = bracket.opening, odd = bracket.odd;
    const char c = lines_.at(i), expected = closing_of(lines_.at(opening));
    const std::string what = fmt::format("{} where {} is expected", c, expected);
    if (odd != kNone && lines_.at(odd) == ']')
      repairs_.erase(odd, 1, odd, "one ] too many, expected no ] here");
    else if (odd != kNone && c == '}')
      repairs_.insert(odd, "{", odd, "no { in front of this key, expected {key: value} in a list in brackets");
    else if (odd != kNone)
      repairs_.insert(odd + 1, " [", odd, "no [ behind this colon, expected [a, b] around several values");
    repairs_.erase(i, 1, i, what);
    const bool is_above = opening < lines_.row_start(i);
    repairs_.insert(i, {expected}, is_above ? opening : i, is_above ? never_closed(opening) : what);
  }
  /// One where none is open.
  void add_surplus(const Bracket& bracket) {
    const char c = lines_.at(bracket.at);
    for (const Bracket& other : brackets_.all())
      if (const std::size_t last = lines_.last_before(other.at);
          other.at < bracket.at && brackets_.is_askew(other) && lines_.is_any_of(last, "]}"))
        repairs_.erase(last, 1, last, ends_early(lines_.at(last)));
    if (lines_.at(row_) == c && end_ == row_ + 1) add_key_of(c);
    std::size_t row = row_;
    do {
      row = lines_.row_above(row);
      if (row != kNone && !brackets_.are_around(row)) add_opening_without_colon(lines_, row, repairs_);
    } while (row != kNone && brackets_.are_around(row));
    if (brackets_.all().front().at != bracket.at) add_end(bracket);
  }
  /// One at which the brackets may end too early.
  void add_end(const Bracket& bracket) {
    const std::size_t i = bracket.at, behind = lines_.behind_blanks(i + 1), next = lines_.next_row(i);
    const char c = lines_.at(i);
    if (lines_.is_colon(behind))
      repairs_.erase(i, 1, i, fmt::format("{} in front of a colon, expected `key: value`", c));
    if (bracket.opening == row_ && behind < end_ && !lines_.is_any_of(behind, ",:]}"))
      repairs_.erase(behind, lines_.size() - behind, behind, kFollows);
    const bool is_outermost = brackets_.open_at(i + 1).empty();
    repairs_.erase(i, 1, i, is_outermost ? ends_early(c) : fmt::format("one {0} too many, expected no {0} here", c));
    if (!is_outermost || !lines_.is_any_of(next, "[]{},")) return;
    const std::size_t end = lines_.end_of_text(next);
    repairs_.replace(i, end - i, fmt::format(",{}{}", lines_.text().substr(i + 1, end - i - 1), c), i, ends_early(c));
  }
  /// A key above that lost the bracket which this row closes.
  void add_key_of(char closing) {
    const char opening = closing == ']' ? '[' : '{';
    for (std::size_t key = lines_.row_above(row_); key != kNone; key = lines_.row_above(key)) {
      if (!lines_.is_empty_key(key)) continue;
      repairs_.insert(
          lines_.end_of_text(key), fmt::format(" {}", opening), key,
          closing == '}' ? fmt::format("no {} behind this key, but a {} below, expected both or none", opening, closing)
                         : fmt::format("no {} behind this key, expected [a, b] around several values", opening));
      if (lines_.indent_of(key) < lines_.indent_of(row_)) break;
    }
  }

  void add_entries() {
    for (std::size_t i = row_; i < end_; ++i) {
      const bool is_behind_blank = i > row_ && lines_.is_space(i - 1), is_before_blank = lines_.is_space(i + 1);
      if (lines_.at(i) == ':' && (is_before_blank || lines_.is_any_of(i + 1, ",]}"))) {
        if (i == row_) repairs_.erase(i, 1, i, "no key in front of this colon, expected `key: value`");
        if (lines_.is_colon(lines_.text().find_first_of(",:[]{}", i + 1)))
          repairs_.insert(i + 1, " {", i,
                          "another `: ` follows this one, expected `,` between two pairs, or { behind this");
      }
      if (lines_.is_any_of(i, "[{") && is_behind_blank && !lines_.is_any_of(lines_.last_before(i), ":,[{"))
        repairs_.insert(i, ": ", i, fmt::format("no `: ` in front of this {}, expected `key: value`", lines_.at(i)));
      if (i + 1 < end_ && (lines_.is_any_of(i, "]}") || (is_before_blank && !lines_.is_any_of(i, ":,[{"))))
        repairs_.insert(i + 1, ",", i, kNoComma);
    }
    if (!lines_.is_any_of(end_ - 1, ",[{:")) repairs_.insert(end_, ",", end_ - 1, kNoComma);
    const std::string_view row = lines_.text().substr(row_, end_ - row_);
    const std::size_t words = std::min(row.find_first_of(":,[]{}\"'"), row.size());
    if (words == row.size() || (words > 0 && row[words] == '}')) repairs_.erase(row_, words, row_, kNoComma);
  }

  const Lines& lines_;
  const Brackets& brackets_;
  std::size_t row_, end_;
  Repairs& repairs_;
};

}  // namespace

void add_bracket_repairs(const Lines& lines, const Brackets& brackets, std::size_t row, Repairs& repairs) {
  BracketRepairs(lines, brackets, row, repairs).add();
}

}  // namespace nixie
