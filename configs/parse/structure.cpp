// One pass over the lines of a text that keeps the maps and lists which are open, as loosely as YAML reads them.
#include "nixie/configs/parse/structure.h"

#include <fmt/format.h>

#include <vector>

#include "nixie/configs/parse/brackets.h"
#include "nixie/configs/parse/lines.h"

namespace nixie {
namespace {

constexpr const char* kNoColon = "no `: ` in this line, expected `key: value`";
constexpr const char* kNoDash = "no `- ` in this line, expected `- item`, indented as the items beside it";
constexpr const char* kFollows = "something follows the document, expected one document and its end";

class Scan : Lines {
 public:
  explicit Scan(std::string_view text) : Lines(text) {}

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

  void blame(std::size_t at, std::string what) { mistake_ = mistake_at(text(), at, std::move(what)); }

  /// Where a quoted text ends that begins here; blames a quote that is never closed.
  std::size_t end_of_quote(std::size_t start) {
    const std::size_t end = closing_quote(start);
    if (end == kNone) blame(start, never_closed(at(start)));
    return end;
  }

  /// Where the colon of the pair stands whose key begins here; kNone for what is no pair.
  std::size_t colon_of(std::size_t start) {
    if (is_any_of(start, "[{|>@`%#")) return kNone;
    std::size_t i = start;
    if (is_quote(start)) {
      i = end_of_quote(start);
      if (i == kNone) return kNone;
      i = behind_blanks(i + 1);
      return is_colon(i) ? i : kNone;
    }
    return colon_in_row(i);
  }

  void read_line() {
    const std::size_t start = at_, content = std::min(text().find_first_not_of(' ', start), size());
    const std::size_t end = row_end(start), first = behind_blanks(start);
    at_ = end + 1;
    if (first >= end || at(first) == '#') return;
    if (at(content) == '\t') {
      blame(content, "a tab in the indentation, expected spaces");
    } else if (content == start && at(start) == '%') {
      if (has_begun_) blame(start, kNoDirective);
    } else if (const std::string_view mark = text().substr(start, 3);
               (mark == "---" || mark == "...") && is_space(start + 3)) {
      read_mark(start);
    } else if (ended_at_ != kNone) {
      blame(ended_at_, kFollows);
    } else if (value_ == Value::plain && (levels_.empty() || indent_of(content) > levels_.back().indent)) {
      go_on_with_text(content);
    } else {
      place(content);
      line_ = content;
      has_begun_ = true;
    }
  }

  /// `---` or `...`
  void read_mark(std::size_t start) {
    const std::size_t behind = behind_blanks(start + 3);
    const bool is_end = at(start) == '.', is_alone = at(behind) == '\n' || at(behind) == '#';
    if (is_end ? !is_alone : has_begun_ || ended_at_ != kNone) return blame(start, kFollows);
    if (is_end && ended_at_ == kNone) ended_at_ = start;
    has_begun_ = true;
    line_ = start;
    value_ = Value::awaited;
    if (!is_end && !is_alone) read_value(behind);
  }

  /// A line that YAML reads as more of the text above it. No value has several lines, so it is out of place, or the
  /// text is.
  void go_on_with_text(std::size_t content) {
    const bool is_text = !is_item(content) && colon_in_row(content) == kNone, is_after_item = is_item(line_);
    const std::size_t depth = indent_of(content), item_depth = indent_of(text_start_);
    const std::string_view row = text().substr(text_start_, row_end(text_start_) - text_start_);
    const bool is_one_word = row.find_first_of(" :=") == kNone;
    const bool is_odd_item = is_after_item && is_item(content) && (depth <= item_depth || is_single(content));
    if (line_colon_ != kNone || is_odd_item)
      blame_deeper(content);
    else if (is_after_item && (is_text || (is_one_word && depth <= item_depth)))
      blame(content, kNoDash);
    else
      blame(is_text ? content : text_start_, kNoColon);
  }

  /// Whether no other item in the one above is as deep as this one: not a list whose key lost its colon.
  bool is_single(std::size_t content) const {
    const std::size_t depth = indent_of(content), above = indent_of(line_);
    const auto is_other = [&](std::size_t i) { return is_item(i) && indent_of(i) == depth; };
    std::size_t next = next_content(content);
    while (next < size() && indent_of(next) > above && !is_other(next)) next = next_content(next);
    return !is_other(next);
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
    if (mistake_ || (line_colon_ != kNone && blame_key(content))) return;
    const bool is_text = !is_list && line_colon_ == kNone;
    is_after_empty_ = is_beside(1) && !is_list && !levels_.back().is_list && value_ == Value::awaited;
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

  /// Of a key that YAML reads as something else, or that is no word. Returns whether it is one.
  bool blame_key(std::size_t key) {
    const char c = at(key);
    const std::size_t behind = std::min(text().find_first_of(" \n", key), size());
    if (c == '-')
      blame(key, "no blank behind this -, expected `- item` or `key: value`");
    else if (is_any_of(key, "&*!") && at(behind - 1) == ':')
      blame(key, fmt::format("{} in front of a key, expected `key: value`, or quotes around the key", c));
    return mistake_.has_value();
  }

  /// Where the document is one text or collection in brackets, a line behind it.
  void blame_root() {
    if (at(line_) != '[' && at(line_) != '{') return blame(line_, kNoColon);
    at_ = size();  // yaml-cpp says what follows the document
  }

  /// An item, pair or value.
  void read_node(std::size_t i) {
    const std::size_t start = row_start(i);
    while (is_item(i)) {
      const std::size_t next = behind_blanks(i + 1), colon = is_item(next) ? kNone : colon_of(next);
      if (mistake_ || (colon != kNone && blame_key(next))) return;
      if (is_item(next)) levels_.push_back({next - start, true, next});
      if (colon != kNone) levels_.push_back({next - start, false, next});
      line_colon_ = colon;
      i = next;
    }
    if (line_colon_ == kNone) return read_value(i);
    for (std::size_t k = i + 1; k < line_colon_ && !is_quote(i); ++k)
      if (is_any_of(k, "{[") && (is_space(k - 1) || at(k - 1) == ':'))
        return blame(k, fmt::format("no `: ` in front of this {}, expected `key: value`", at(k)));
    read_value(line_colon_ + 1);
  }

  void read_value(std::size_t i) {
    i = behind_blanks(i);
    while (at(i) == '&' || at(i) == '!') i = behind_blanks(std::min(text().find_first_of(" \t\n", i), size()));
    const char first = at(i);
    const std::size_t end = row_end(i);
    value_ = Value::complete;
    close_ = 0;
    if (first == '\n' || first == '#') {
      value_ = Value::awaited;
    } else if (first == '|' || first == '>') {
      skip_block_text(end + 1);
    } else if (is_quote(i)) {
      read_in_quotes(i);
    } else if (first == '[' || first == '{') {
      read_in_brackets(i);
    } else {
      value_ = Value::plain;
      text_start_ = i;
    }
  }

  void read_in_quotes(std::size_t i) {
    const std::size_t close = end_of_quote(i);
    if (close == kNone) return;
    at_ = row_end(close) + 1;
    const std::size_t next = behind_blanks(close + 1);
    if (!is_any_of(next, "\n#:"))
      blame(i, fmt::format("more follows the text in {0} that begins here, expected nothing behind its end", at(i)));
  }

  void read_in_brackets(std::size_t i) {
    const Brackets read = read_brackets(*this, i, levels_.empty() ? 0 : levels_.back().indent);
    mistake_ = read.mistake;
    close_ = read.end;
    if (mistake_) return;
    at_ = row_end(close_) + 1;
    const bool is_below_key = first_of_row(i) == i && line_ < i;
    if (is_below_key && at(behind_blanks(close_ + 1)) == ',')
      blame(line_, "no [ behind this key, expected [a, b] around several values");
  }

  void skip_block_text(std::size_t i) {
    for (; i < size(); i = row_end(i) + 1) {
      const std::size_t content = text().find_first_not_of(' ', i);
      if (content == kNone || (at(content) != '\n' && (levels_.empty() || content - i <= levels_.back().indent))) break;
    }
    at_ = i;
  }

  /// Of two lines that should be as deep, the deeper one if another line below is as deep as the other; else the one
  /// whose indentation is rarer, or odd.
  void blame_indent(std::size_t above, std::size_t below) {
    if (is_item(below)) above = first_of_row(above);  // of the item, not its first key
    if (!is_item(below) && first_of_row(above) != above) return tell_indent(below, above);
    if (is_item(below) && !is_item(above) && indent_of(above) == indent_of(behind_blanks(below + 1)))
      return blame(above, kNoDash);
    const std::size_t depth_above = indent_of(above), depth_below = indent_of(below);
    std::size_t as_above = 0, as_below = 0;  // lines of the text
    std::size_t next = kNone;                // the next line that is deeper than neither
    for (std::size_t i = 0; i < size(); i = row_end(i) + 1) {
      const std::size_t first = text().find_first_not_of(' ', i), depth = first - i;
      if (first == kNone || at(first) == '\n' || is_comment(first)) continue;
      as_above += depth == depth_above;
      as_below += depth == depth_below;
      if (next == kNone && i > below && depth <= std::min(depth_above, depth_below)) next = first;
    }
    bool is_above = as_above == as_below ? depth_above % 2 > depth_below % 2 : as_above < as_below;
    const bool has_next = next != kNone && indent_of(next) == std::min(depth_above, depth_below);
    if (has_next && depth_above < depth_below && is_item(next) && !is_item(above)) return blame(above, kNoDash);
    if (has_next) is_above = depth_above > depth_below;
    is_above ? tell_indent(above, below) : tell_indent(below, above);
  }
  /// A line deeper than the one above it, which has its value already.
  void blame_deeper(std::size_t content) {
    const bool is_text = !is_item(content) && colon_of(content) == kNone;
    const bool is_of_brackets = is_text && is_any_of(content, "[]{},");
    if (close_ > line_ && is_of_brackets)
      return blame(close_,
                   fmt::format("{} ends the value of the key above, but the next line goes on with it, expected "
                               "no {} here",
                               at(close_), at(close_)));
    if (is_text && !is_of_brackets) return blame(content, kNoColon);
    if (is_item(content) && !is_item(line_) && line_colon_ == kNone) return blame(line_, kNoDash);
    if (is_after_empty_) return tell_indent(line_, content);
    const bool is_above_in_place = !levels_.empty() && levels_.back().first < row_start(line_);
    is_above_in_place ? tell_indent(content, line_) : blame_indent(line_, content);
  }
  void tell_indent(std::size_t odd, std::size_t other) {
    const auto line_of_other =
        std::count(text().begin(), text().begin() + static_cast<std::ptrdiff_t>(other), '\n') + 1;
    blame(odd, fmt::format("this line is indented by {} and line {} by {}, expected the same indentation, or a `key:` "
                           "above the deeper one",
                           indent_of(odd), line_of_other, indent_of(other)));
  }

  /// Where items and pairs are as deep: the first of those that are fewer.
  void blame_kind(const Level& level, std::size_t content) {
    std::size_t items = level.is_list, pairs = !level.is_list;
    for (std::size_t i = next_content(level.first); i < size() && indent_of(i) >= level.indent; i = next_content(i))
      if (indent_of(i) == level.indent) ++(is_item(i) ? items : pairs);
    const std::size_t item = first_of_row(level.first);
    const bool is_in_item = item != level.first;
    const bool is_first = level.is_list ? items < pairs + is_in_item : pairs < items;
    if (is_first && !level.is_list && is_in_item) return tell_indent(item, content);  // it is too far left
    blame(is_first ? level.first : content,
          is_first == level.is_list
              ? "`- ` in front of a line among pairs, expected `key: value`, indented as the lines beside it"
              : kNoDash);
  }

  std::size_t at_ = 0;  // where the next line begins
  std::optional<Mistake> mistake_;
  std::vector<Level> levels_;
  bool has_begun_ = false;        // the document
  std::size_t ended_at_ = kNone;  // the mark that ends it
  Value value_ = Value::awaited;
  std::size_t line_ = 0;            // the text of the last line that is no more of a text
  std::size_t line_colon_ = kNone;  // its colon
  bool is_after_empty_ = false;     // the key above it, as deep, has no value
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
