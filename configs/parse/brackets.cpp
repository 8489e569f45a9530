// One pass over the characters that keeps the brackets which are open. A bracket is known to be one too many where
// without it each is closed and the line behind them is one of the map around.
#include "nixie/configs/parse/brackets.h"

#include <fmt/format.h>

#include <vector>

namespace nixie {
namespace {

constexpr std::size_t kNone = Lines::kNone;

class Scan {
 public:
  Scan(const Lines& lines, std::size_t indent) : lines_(lines), indent_(indent) {}

  Brackets read(std::size_t i) {
    row_ = i;
    first_ = lines_.first_of_row(i);
    row_indent_ = lines_.indent_of(first_);
    key_indent_ = lines_.indent_of(lines_.behind_dashes(first_));
    for (; i < lines_.size(); ++i) {
      i = read_character(i);
      if (mistake_ || open_.empty()) break;
    }
    if (!mistake_ && !open_.empty()) blame_last_open();
    if (!mistake_) mistake_ = if_closed_;
    return {mistake_ ? kNone : i, surplus_ == kNone ? i : surplus_, mistake_};
  }

 private:
  struct Open {
    std::size_t at;
    std::size_t indent;              ///< of its row
    std::size_t key_indent;          ///< of what stands in that behind dashes
    std::size_t colon = kNone;       ///< of the entry that is read
    std::size_t last_colon = kNone;  ///< of the entries before; the ] behind it where there is one
    std::size_t odd =
        kNone;  ///< a key in a list without {}, or in a map the last_colon above the first that is no pair

    bool is_as_deep(std::size_t depth) const { return indent == depth || key_indent == depth; }
  };
  /// What a list or map in brackets holds last.
  struct Last {
    std::size_t start = kNone;
    std::size_t end = kNone;  ///< of a value that has no comma behind it yet
    bool is_plain = false;    ///< that value is a text without quotes
  };

  void blame(std::size_t at, std::string what) { mistake_ = mistake_at(lines_.text(), at, std::move(what)); }
  char closing(std::size_t bracket) const { return lines_.at(bracket) == '{' ? '}' : ']'; }
  void blame_open(std::size_t bracket) {
    blame(bracket, fmt::format("this {} is never closed, expected {}", lines_.at(bracket), closing(bracket)));
  }

  /// Of those that are open the last; but where one that begins its row closed another than that of its indentation,
  /// that one is too many.
  void blame_last_open() {
    const Open& last = open_.back();
    const bool is_odd = odd_ != kNone && last.is_as_deep(odd_indent_) && lines_.at(odd_) == lines_.at(last.at);
    blame_open(is_odd ? odd_ : last.at);
  }

  /// A row as deep as those around stands behind the brackets, unless they are closed below it.
  void begin_row(std::size_t row) {
    row_ = row;
    if (lines_.at(row) == '%') return blame(row, kNoDirective);
    first_ = lines_.behind_blanks(row);
    row_indent_ = first_ - row;
    key_indent_ = lines_.behind_dashes(first_) - row;
    const bool is_pair = row_indent_ <= indent_ && lines_.colon_in_row(first_) != kNone;
    if (is_closed_ || lines_.is_any_of(first_, "[]{},") || !(is_pair || lines_.is_item(first_))) return;
    is_closed_ = closes(row);
    if (!is_closed_) blame_last_open();
  }

  /// Reads what stands at `i`; returns where that ends, or kNone with a mistake.
  std::size_t read_character(std::size_t i) {
    const char c = lines_.at(i);
    if (c == '\n') begin_row(i + 1);
    if (lines_.is_space(i)) return i;
    if (lines_.is_comment(i) || (c == '#' && !last_.is_plain)) return lines_.row_end(i) - 1;
    if (c == ']' || c == '}') {
      close(i);
    } else if (lines_.is_colon(i) || (c == ':' && !last_.is_plain && last_.end != kNone)) {
      read_colon(i);
    } else if (c == ',') {
      end_entry();
      last_ = {};
    } else if ((c == '&' || c == '!') && last_.end == kNone) {
      while (!lines_.is_space(i + 1) && !lines_.is_any_of(i + 1, ",]}")) ++i;
    } else if (last_.is_plain && row_ <= last_.end && c != '[' && c != '{') {
      last_.end = i;  // more of the text
    } else {
      return read_value(i);
    }
    return i;
  }

  std::size_t read_value(std::size_t i) {
    const bool is_open = lines_.is_any_of(i, "[{"), is_quoted = lines_.is_quote(i);
    if (last_.end != kNone && is_open && !if_closed_ && closes(i + 1) && !closes(i)) {
      blame_open(i);  // one too many
      return kNone;
    }
    // A row of words between two values is a stray one; else the comma is missing behind the value above.
    if (last_.end != kNone) lacks_comma(!if_closed_ && is_stray(last_.end, i) ? i : last_.end);
    const std::size_t start = i;
    if (is_open) open_.push_back({.at = i, .indent = row_indent_, .key_indent = key_indent_});
    if (is_quoted) i = lines_.closing_quote(i);
    if (i == kNone) blame(start, never_closed(lines_.at(start)));
    last_ = {.start = start, .end = is_open ? kNone : i, .is_plain = !is_open && !is_quoted};
    return i;
  }

  void read_colon(std::size_t i) {
    if (last_.end != kNone && last_.end < row_) return blame(i, "no key in front of this colon, expected `key: value`");
    if (last_.end != kNone && lines_.is_any_of(last_.end, "]}"))
      return blame(last_.end, fmt::format("{} in front of a colon, expected `key: value`", lines_.at(last_.end)));
    Open& inner = open_.back();
    if (inner.colon != kNone && lines_.at(inner.at) == '{')
      keep_if_closed(inner.colon, "another `: ` follows this one, expected `,` between two pairs, or { behind this");
    if (lines_.at(inner.at) == '[' && inner.odd == kNone) inner.odd = last_.start;
    inner.colon = i;
    last_ = {};
  }

  void end_entry() {
    Open& inner = open_.back();
    const bool is_pair = inner.colon != kNone, is_map = lines_.at(inner.at) == '{';
    if (is_map && !is_pair && last_.end != kNone && inner.odd == kNone) inner.odd = inner.last_colon;
    if (is_pair) inner.last_colon = last_.end != kNone && lines_.at(last_.end) == ']' ? last_.end : inner.colon;
    inner.colon = kNone;
  }

  void close(std::size_t i) {
    end_entry();
    const Open open = open_.back();
    const std::size_t bracket = open.at, odd = open.odd;
    const char c = lines_.at(i);
    if (c != closing(bracket)) {
      const bool is_extra = closes(i + 1);
      const bool is_key = lines_.is_colon(lines_.behind_blanks(i + 1));
      if (is_extra && if_closed_) {
        mistake_ = if_closed_;
        return;
      }
      if (is_extra && odd != kNone && lines_.at(odd) == ']') return blame(odd, "one ] too many, expected no ] here");
      if (is_extra && odd != kNone && !is_key)
        return blame(odd, c == '}' ? "no { in front of this key, expected {key: value} in a list in brackets"
                                   : "no [ behind this colon, expected [a, b] around several values");
      if (!is_extra && bracket < row_) return blame_open(bracket);
      return blame(i, fmt::format("{} where {} is expected", c, closing(bracket)));
    }
    open_.pop_back();
    if (i == first_ && bracket < row_ && odd_ == kNone && !open.is_as_deep(row_indent_)) {
      odd_ = bracket;
      odd_indent_ = row_indent_;
      if (last_.end != kNone && lines_.is_any_of(last_.end, "]}")) surplus_ = last_.end;
    }
    last_ = {.start = bracket, .end = i};
  }

  /// Told only where each bracket is closed: behind an open one every line looks wrong.
  void keep_if_closed(std::size_t at, std::string what) {
    if (!if_closed_) if_closed_ = mistake_at(lines_.text(), at, std::move(what));
  }
  void lacks_comma(std::size_t i) {
    keep_if_closed(i, "no `,` between this and what follows, expected `,` behind each value but the last");
    end_entry();
  }
  bool is_stray(std::size_t value, std::size_t i) const {
    const std::string_view row = lines_.text().substr(i, lines_.row_end(i) - i);
    const std::size_t end = row.find_first_of(":,[]{}\"'");
    const bool is_last_of_map = lines_.at(open_.back().at) == '{' && end != kNone && row[end] == '}';
    return lines_.row_end(value) < i && (end == kNone || is_last_of_map);
  }

  /// Whether the brackets that are open are closed by the text from `i` on, and nothing of them follows.
  bool closes(std::size_t i) const {
    std::vector<char> awaited;
    for (const Open& open : open_) awaited.push_back(closing(open.at));
    for (; i < lines_.size() && !awaited.empty(); ++i) {
      const char c = lines_.at(i);
      if (lines_.is_comment(i) || (c == '#' && lines_.is_any_of(i - 1, "[]{},"))) i = lines_.row_end(i);
      if (lines_.is_quote(i) && (lines_.is_space(i - 1) || lines_.is_any_of(i - 1, "[{,:"))) {
        i = lines_.closing_quote(i);
        if (i == kNone) return false;
      } else if (c == '[' || c == '{') {
        awaited.push_back(closing(i));
      } else if (c == ']' || c == '}') {
        if (c != awaited.back()) return false;
        awaited.pop_back();
      }
    }
    const std::size_t behind = lines_.behind_blanks(i), next = lines_.next_content(i);
    const bool ends = lines_.at(behind) == '\n' || lines_.is_comment(behind);
    const bool is_next_outside =
        next == lines_.size() || (lines_.indent_of(next) <= indent_ && !lines_.is_any_of(next, "[]{},"));
    return awaited.empty() && ends && is_next_outside;
  }

  const Lines& lines_;
  std::size_t indent_;
  std::optional<Mistake> mistake_;
  std::vector<Open> open_;
  Last last_;
  std::optional<Mistake> if_closed_;  // the first that is one only where each bracket is closed
  std::size_t row_ = 0;               // where the row begins
  std::size_t first_ = 0;             // the first text in it
  std::size_t row_indent_ = 0;        // how deep that is
  std::size_t key_indent_ = 0;        // the same behind its dashes
  bool is_closed_ = false;            // by what follows
  std::size_t odd_ = kNone;           // the first bracket that one of another indentation closed
  std::size_t odd_indent_ = 0;        // of the one that closed it
  std::size_t surplus_ = kNone;       // the bracket closed in front of that one
};

}  // namespace

Brackets read_brackets(const Lines& lines, std::size_t start, std::size_t indent) {
  return Scan(lines, indent).read(start);
}

std::string never_closed(char quote) { return fmt::format("this {} is never closed", quote); }

}  // namespace nixie
