// One pass over the lines of a text that keeps the maps and lists which are open, as loosely as YAML reads them.
#include "nixie/configs/parse/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace nixie {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr const char* kNoColon = "no `: ` in this line, expected `key: value`";
constexpr const char* kNoDash = "no `- ` in this line, expected `- item`, indented as the items beside it";

class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  /// The first mistake of the lines that begin in front of `end`.
  std::optional<Mistake> first_mistake(std::size_t end) {
    while (at_ < end && !mistake_) read_line();
    return mistake_;
  }

 private:
  /// A map or list in block style.
  struct Level {
    std::size_t indent;
    bool is_list;
    std::size_t first;  ///< where its first line's text begins
  };
  enum class Value { awaited, plain, complete };

  void blame(std::size_t at, std::string what) { mistake_ = mistake_at(text_, at, std::move(what)); }

  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\n'; }
  bool is_space(std::size_t i) const { return at(i) == ' ' || at(i) == '\t' || at(i) == '\n'; }
  std::size_t row_end(std::size_t i) const { return std::min(text_.find('\n', i), text_.size()); }
  std::size_t row_start(std::size_t i) const { return i == 0 ? 0 : text_.rfind('\n', i - 1) + 1; }
  std::size_t behind_blanks(std::size_t i) const { return std::min(text_.find_first_not_of(" \t", i), text_.size()); }
  std::size_t indent_of(std::size_t i) const { return i - row_start(i); }
  bool is_item(std::size_t i) const { return at(i) == '-' && is_space(i + 1); }
  bool is_colon(std::size_t i) const { return at(i) == ':' && is_space(i + 1); }
  bool is_comment(std::size_t i) const { return at(i) == '#' && (i == 0 || is_space(i - 1)); }

  /// Where a quoted text ends that begins here; blames a quote that nothing closes, or only the next one does, which
  /// opens another text.
  std::size_t closing_quote(std::size_t start) {
    const char quote = text_[start];
    std::size_t end = start + 1;
    for (; end < text_.size(); ++end) {
      const bool is_escape = quote == '"' ? text_[end] == '\\' : text_.substr(end, 2) == "''";
      if (is_escape)
        ++end;
      else if (text_[end] == quote)
        break;
    }
    const bool is_in_row = text_.substr(start, end - start).find('\n') == kNone;
    const std::size_t next = behind_blanks(end + 1);
    const bool goes_on = std::string_view(":,]}#\n").find(at(next)) == kNone;
    if (end < text_.size() && (is_in_row || !goes_on)) return end;
    blame(start, fmt::format("this {} is never closed", quote));
    return kNone;
  }

  /// Where the colon of the pair stands whose key begins here; kNone for what is no pair.
  std::size_t colon_of(std::size_t start) {
    const bool is_quoted = at(start) == '"' || at(start) == '\'';
    if (std::string_view("[{|>@`%#").find(at(start)) != kNone) return kNone;
    std::size_t i = start;
    if (is_quoted) {
      i = closing_quote(start);
      if (i == kNone) return kNone;
      i = behind_blanks(i + 1);
      return is_colon(i) ? i : kNone;
    }
    for (const std::size_t end = row_end(start); i < end && !is_comment(i); ++i)
      if (is_colon(i)) return i;
    return kNone;
  }

  void read_line() {
    const std::size_t start = at_, content = std::min(text_.find_first_not_of(' ', start), text_.size());
    const std::size_t end = row_end(start), first = behind_blanks(start);
    at_ = end + 1;
    if (first >= end) return;
    if (at(first) == '#') {  // a comment ends a text without quotes
      if (value_ == Value::plain) value_ = Value::complete;
    } else if (at(content) == '\t') {
      blame(content, "a tab in the indentation, expected spaces");
    } else if (content == start && at(start) == '%') {
      if (has_begun_) blame(start, kNoDirective);
    } else if (const std::string_view mark = text_.substr(start, 3);
               (mark == "---" || mark == "...") && is_space(start + 3)) {
      levels_.clear();
      has_begun_ = true;
      value_ = Value::awaited;
    } else if (value_ == Value::plain && (levels_.empty() || indent_of(content) > levels_.back().indent)) {
      go_on_with_text(content);
    } else {
      place(content);
      line_ = content;
      has_begun_ = true;
    }
  }

  /// A line that YAML reads as more of the text above it, so it must hold no colon.
  void go_on_with_text(std::size_t content) {
    const std::size_t end = row_end(content);
    std::size_t colon = content;
    while (colon < end && !is_colon(colon) && !is_comment(colon)) ++colon;
    if (!is_colon(colon)) return;
    const bool is_after_item = is_item(line_);
    const std::size_t depth = indent_of(content), item_depth = indent_of(text_start_);
    const std::string_view row = text_.substr(text_start_, row_end(text_start_) - text_start_);
    const bool is_one_word = row.find_first_of(" :=") == kNone;
    if (line_colon_ != kNone || (is_after_item && is_item(content) && depth <= item_depth))
      blame_deeper(content);
    else if (is_after_item && is_one_word && depth == item_depth)
      blame(content, kNoDash);
    else
      blame(text_start_, kNoColon);
  }

  /// Puts a line into the map or list of its indentation.
  void place(std::size_t content) {
    const std::size_t indent = indent_of(content);
    std::size_t inner = kNone;  // the first line of a map or list that ends here
    for (; !levels_.empty() && levels_.back().indent > indent; levels_.pop_back()) inner = levels_.back().first;
    const bool is_list = is_item(content);
    const auto is_beside = [&](std::size_t depth) {
      return levels_.size() >= depth && levels_[levels_.size() - depth].indent == indent;
    };
    if (is_beside(2) && levels_.back().is_list && !is_list) levels_.pop_back();  // of a key as deep as its items
    line_colon_ = is_list ? kNone : colon_of(content);
    if (mistake_) return;
    const bool is_text = !is_list && line_colon_ == kNone;
    if (is_beside(1) && is_list && !levels_.back().is_list && value_ == Value::awaited) {
      levels_.push_back({indent, true, content});
    } else if (is_beside(1)) {
      if (is_text) return blame(content, levels_.back().is_list ? kNoDash : kNoColon);
      if (is_list != levels_.back().is_list) return blame_kind(levels_.back(), content);
    } else if (inner != kNone) {
      return blame_indent(inner, content);
    } else if (value_ != Value::awaited) {
      return levels_.empty() ? blame_root() : blame_deeper(content);
    } else if (!is_text) {
      levels_.push_back({indent, is_list, content});
    }
    read_node(content);
  }

  /// Where the document is one text or collection in brackets, a line behind it.
  void blame_root() {
    if (at(line_) != '[' && at(line_) != '{') return blame(line_, kNoColon);
    at_ = text_.size();  // yaml-cpp says what follows the document
  }

  /// An item, pair or value.
  void read_node(std::size_t i) {
    const std::size_t start = row_start(i);
    while (is_item(i)) {
      const std::size_t next = behind_blanks(i + 1), colon = is_item(next) ? kNone : colon_of(next);
      if (mistake_) return;
      if (is_item(next)) levels_.push_back({next - start, true, next});
      if (colon != kNone) levels_.push_back({next - start, false, next});
      line_colon_ = colon;
      i = next;
    }
    if (line_colon_ == kNone) return read_value(i);
    const bool is_quoted = at(i) == '"' || at(i) == '\'';
    for (std::size_t k = i + 1; k < line_colon_ && !is_quoted; ++k)
      if ((at(k) == '{' || at(k) == '[') && (is_space(k - 1) || at(k - 1) == ':'))
        return blame(k, fmt::format("no `: ` in front of this {}, expected `key: value`", at(k)));
    read_value(line_colon_ + 1);
  }

  void read_value(std::size_t i) {
    i = behind_blanks(i);
    while (at(i) == '&' || at(i) == '!') i = behind_blanks(std::min(text_.find_first_of(" \t\n", i), text_.size()));
    const char first = at(i);
    const std::size_t end = row_end(i);
    value_ = Value::complete;
    close_ = 0;
    if (first == '\n' || first == '#') {
      value_ = Value::awaited;
    } else if (first == '|' || first == '>') {
      skip_block_text(end + 1);
    } else if (first == '"' || first == '\'') {
      if (const std::size_t close = closing_quote(i); close != kNone) at_ = row_end(close) + 1;
    } else if (first == '[' || first == '{') {
      close_ = closing_bracket(i);
      if (close_ != kNone) at_ = row_end(close_) + 1;
    } else {
      const bool has_comment = text_.substr(i, end - i).find(" #") != kNone;
      if (!has_comment) value_ = Value::plain;
      text_start_ = i;
    }
  }

  void skip_block_text(std::size_t i) {
    for (; i < text_.size(); i = row_end(i) + 1) {
      const std::size_t content = text_.find_first_not_of(' ', i);
      if (content == kNone || (at(content) != '\n' && (levels_.empty() || content - i <= levels_.back().indent))) break;
    }
    at_ = i;
  }

  /// What a list or map in brackets holds last.
  struct Last {
    std::size_t end = kNone;    ///< of a value that has no comma behind it yet
    bool is_plain = false;      ///< that value is a text without quotes
    std::size_t above = kNone;  ///< where that text ends in the rows above
  };

  /// Where a list or map in brackets ends.
  std::size_t closing_bracket(std::size_t i) {
    std::vector<std::size_t> open;
    Last last;
    std::size_t row = i;  // where the row begins
    for (; i < text_.size() && !mistake_; ++i) {
      const char c = at(i);
      if (c == '\n') row = i + 1;
      if (c == '\n' && at(row) == '%') blame(row, kNoDirective);
      if (is_space(i)) continue;
      if (is_comment(i)) {
        i = row_end(i) - 1;
      } else if (c == ']' || c == '}') {
        if (c != closing(open.back()))
          open.back() < row ? blame_open(open.back())
                            : blame(i, fmt::format("{} where {} is expected", c, closing(open.back())));
        open.pop_back();
        if (open.empty()) break;
        last = {.end = i};
      } else if (is_colon(i) && last.is_plain && last.above != kNone) {
        lacks_comma(last.above);  // a key has one row
        last = {};
      } else if (c == ',' || is_colon(i) || (c == ':' && !last.is_plain && last.end != kNone)) {
        last = {};
      } else if ((c == '&' || c == '!') && last.end == kNone) {
        while (!is_space(i + 1) && std::string_view(",]}").find(at(i + 1)) == kNone) ++i;
      } else if (last.is_plain && c != '[' && c != '{') {
        if (row > last.end) last.above = last.end;
        last.end = i;  // more of the text
      } else {
        // A row of words between two values is a stray one; else the comma is missing behind the value above.
        if (last.end != kNone && comma_ == kNone) lacks_comma(is_stray(last.end, i) ? i : last.end);
        const bool is_quoted = c == '"' || c == '\'', is_open = c == '[' || c == '{';
        if (is_open) open.push_back(i);
        if (is_quoted) i = closing_quote(i);
        last = {.end = is_open ? kNone : i, .is_plain = !is_open && !is_quoted};
      }
    }
    if (!mistake_ && !open.empty()) blame_open(open.back());
    if (!mistake_ && comma_ != kNone)
      blame(comma_, "no `,` between this and what follows, expected `,` behind each value but the last");
    return mistake_ ? kNone : i;
  }
  /// Told only where each bracket is closed: behind an open one every line looks wrong.
  void lacks_comma(std::size_t i) { comma_ = std::min(comma_, i); }
  char closing(std::size_t bracket) const { return at(bracket) == '{' ? '}' : ']'; }
  void blame_open(std::size_t bracket) {
    blame(bracket, fmt::format("this {} is never closed, expected {}", at(bracket), closing(bracket)));
  }
  bool is_stray(std::size_t value, std::size_t i) const {
    const std::string_view row = text_.substr(i, row_end(i) - i);
    return row_end(value) < i && row.find_first_of(":,[]{}\"'") == kNone;
  }

  /// Of two lines that should be as deep, the deeper one if another line below is as deep as the other; else the one
  /// whose indentation is rarer, or odd.
  void blame_indent(std::size_t above, std::size_t below) {
    if (is_item(below)) above = text_.find_first_not_of(' ', row_start(above));  // of the item, not its first key
    const std::size_t depth_above = indent_of(above), depth_below = indent_of(below);
    std::size_t as_above = 0, as_below = 0;  // lines of the text
    std::size_t next = kNone;                // the indentation of the next line that is deeper than neither
    for (std::size_t i = 0; i < text_.size(); i = row_end(i) + 1) {
      const std::size_t first = text_.find_first_not_of(' ', i), depth = first - i;
      if (first == kNone || at(first) == '\n' || is_comment(first)) continue;
      as_above += depth == depth_above;
      as_below += depth == depth_below;
      if (next == kNone && i > below && depth <= std::min(depth_above, depth_below)) next = depth;
    }
    bool is_above = as_above == as_below ? depth_above % 2 > depth_below % 2 : as_above < as_below;
    if (next == std::min(depth_above, depth_below)) is_above = depth_above > depth_below;
    is_above ? tell_indent(above, below) : tell_indent(below, above);
  }
  /// A line deeper than the one above it, which has its value already.
  void blame_deeper(std::size_t content) {
    const bool is_text = !is_item(content) && colon_of(content) == kNone;
    const bool is_of_brackets = is_text && std::string_view("[]{},").find(at(content)) != kNone;
    if (close_ > row_end(line_) && is_of_brackets)
      return blame(close_,
                   fmt::format("{} ends the value of the key above, but the next line goes on with it, expected "
                               "no {} here",
                               at(close_), at(close_)));
    if (is_text && !is_of_brackets) return blame(content, kNoColon);
    const bool is_above_in_place = !levels_.empty() && levels_.back().first < row_start(line_);
    is_above_in_place ? tell_indent(content, line_) : blame_indent(line_, content);
  }
  void tell_indent(std::size_t odd, std::size_t other) {
    const auto line_of_other = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(other), '\n') + 1;
    blame(odd, fmt::format("this line is indented by {} and line {} by {}, expected the same indentation, or a `key:` "
                           "above the deeper one",
                           indent_of(odd), line_of_other, indent_of(other)));
  }

  /// Where items and pairs are as deep: the first of those that are fewer.
  void blame_kind(const Level& level, std::size_t content) {
    std::size_t items = 0, pairs = 0;
    for (std::size_t i = row_start(level.first); i < text_.size(); i = row_end(i) + 1) {
      const std::size_t first = text_.find_first_not_of(" \n", i);
      if (first == kNone || indent_of(first) < level.indent) break;
      if (indent_of(first) == level.indent && !is_comment(first)) ++(is_item(first) ? items : pairs);
    }
    const bool is_first = (level.is_list ? items < pairs : pairs < items);
    blame(is_first ? level.first : content,
          is_first == level.is_list
              ? "`- ` in front of a line among pairs, expected `key: value`, indented as the lines beside it"
              : kNoDash);
  }

  std::string_view text_;
  std::size_t at_ = 0;  // where the next line begins
  std::optional<Mistake> mistake_;
  std::vector<Level> levels_;
  bool has_begun_ = false;  // the document
  Value value_ = Value::awaited;
  std::size_t line_ = 0;            // the text of the last line that is no more of a text
  std::size_t line_colon_ = kNone;  // its colon
  std::size_t comma_ = kNone;       // the first place in brackets without a comma
  std::size_t close_ = 0;           // the bracket that ends its value
  std::size_t text_start_ = 0;      // of the text without quotes in it
};

}  // namespace

std::optional<Mistake> find_mistake(std::string_view text, int line) {
  std::size_t end = 0;  // of that line
  for (int i = 0; i < line && end < text.size(); ++i) end = std::min(text.find('\n', end), text.size() - 1) + 1;
  const std::optional<Mistake> mistake = Scan(text).first_mistake(end);
  return mistake && mistake->line <= line ? mistake : std::nullopt;
}

}  // namespace nixie
