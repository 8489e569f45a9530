// One pass over the lines of a text that keeps the maps and lists which are open, as loosely as YAML reads them.
#include "nixie/configs/parse/structure.h"

#include <fmt/format.h>

#include <vector>

#include "nixie/configs/parse/brackets.h"
#include "nixie/configs/parse/indentation.h"
#include "nixie/configs/parse/lines.h"

namespace nixie {
namespace {

constexpr const char* kNoColon = "no `: ` in this line, expected `key: value`";
constexpr const char* kFollows = "something follows the document, expected one document and its end";

std::string no_colon_before(char opening) {
  return fmt::format("no `: ` in front of this {}, expected `key: value`", opening);
}
std::string text_before(char opening) {
  return fmt::format("more stands between the colon and this {}, expected `key: value`", opening);
}

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
    if (const std::size_t opening = opening_in_text(); opening != kNone)
      return blame(opening, line_colon_ == kNone ? no_colon_before(at(opening)) : text_before(at(opening)));
    const std::size_t depth = indent_of(content), item_depth = indent_of(text_start_);
    const std::string_view row = text().substr(text_start_, row_end(text_start_) - text_start_);
    const bool is_number = is_any_of(text_start_, "0123456789");  // and no key
    const bool is_one_word = row.find_first_of(" :=") == kNone;
    const bool is_odd_item = is_after_item && is_item(content) && (depth < item_depth || is_single(content));
    if (line_colon_ != kNone || is_odd_item || (is_number && !is_text && depth > indent_of(line_)))
      blame_deeper(content);
    else if (is_after_item && (is_text || (is_one_word && depth + is_item(content) <= item_depth)))
      blame(content, kNoDash);
    else
      blame(is_text ? content : text_start_, kNoColon);
  }

  /// What the text without quotes takes for more of itself: a bracket that its row leaves open, | or > at its end.
  std::size_t opening_in_text() const {
    std::size_t end = text_start_, opening = kNone, depth = 0;
    for (std::size_t i = text_start_; at(i) != '\n' && !is_comment(i); ++i) {
      if (is_any_of(i, "[{") && depth++ == 0) opening = i;
      if (is_any_of(i, "]}") && depth > 0 && --depth == 0) opening = kNone;
      if (!is_space(i)) end = i;
    }
    if (depth > 0) return opening;
    while (end > text_start_ && is_any_of(end, "+-123456789")) --end;
    return end > text_start_ && is_any_of(end, "|>") ? end : kNone;
  }
  /// Whether no other item in the one above is as deep as this one: not a list whose key lost its colon.
  bool is_single(std::size_t content) const {
    const std::size_t depth = indent_of(content), above = indent_of(line_);
    const auto is_other = [&](std::size_t i) { return is_item(i) && indent_of(i) == depth; };
    std::size_t next = next_content(content);
    if (is_empty_key(content) && is_other(next)) return true;  // that is an item of its own list
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
    const std::size_t colon = is_list ? kNone : colon_of(content);
    if (mistake_ || (colon != kNone && blame_key(content))) return;
    const bool is_text = !is_list && colon == kNone;
    const bool is_after_empty = is_beside(1) && !is_list && !levels_.back().is_list && value_ == Value::awaited;
    if (is_text && close_ > line_ && is_any_of(content, "]},") && is_only(content, "]}, ")) {
      return blame_close(inner, content);
    } else if (is_beside(1) && is_list && !levels_.back().is_list && value_ == Value::awaited && inner == kNone) {
      levels_.push_back({indent, true, content});
    } else if (is_beside(1)) {
      if (is_text) return blame(content, levels_.back().is_list ? kNoDash : kNoColon);
      if (is_list != levels_.back().is_list) return blame_kind(inner, content);
    } else if (inner != kNone) {
      return blame_indent(inner, content);
    } else if (value_ != Value::awaited) {
      return levels_.empty() ? blame_root() : blame_deeper(content);
    } else if (!is_text) {
      levels_.push_back({indent, is_list, content});
    }
    is_after_empty_ = is_after_empty;
    line_colon_ = colon;
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
    const std::size_t bracket = is_quote(i) ? kNone : bracket_in_text(i, line_colon_);
    if (bracket != kNone) return blame(bracket, no_colon_before(at(bracket)));
    read_value(line_colon_ + 1);
  }

  /// The first bracket in a text without quotes that could open a value.
  std::size_t bracket_in_text(std::size_t i, std::size_t end) const {
    for (++i; i < end; ++i)
      if (is_any_of(i, "{[") && (is_space(i - 1) || is_any_of(i - 1, ":="))) return i;
    return kNone;
  }

  void read_value(std::size_t i) {
    i = behind_blanks(i);
    while (at(i) == '&' || at(i) == '!') i = behind_blanks(end_of_word(i));
    const char first = at(i);
    value_ = Value::complete;
    close_ = 0;
    block_text_ = kNone;
    if (first == '\n' || first == '#') {
      value_ = Value::awaited;
    } else if (first == '|' || first == '>') {
      read_block_text(i);
    } else if (is_quote(i)) {
      read_in_quotes(i);
    } else if (first == '[' || first == '{') {
      read_in_brackets(i);
    } else {
      value_ = Value::plain;
      text_start_ = i;
      const std::size_t colon = colon_in_row(i), bracket = colon == kNone ? kNone : bracket_in_text(i, colon);
      if (bracket != kNone) blame(bracket, text_before(at(bracket)));
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
    surplus_ = read.surplus;
    if (mistake_) return;
    at_ = row_end(close_) + 1;
    const bool is_below_key = first_of_row(i) == i && line_ < i;
    if (is_below_key && at(behind_blanks(close_ + 1)) == ',')
      return blame(line_, "no [ behind this key, expected [a, b] around several values");
    if (at(behind_blanks(close_ + 1)) != ',') return;
    const std::size_t depth = levels_.empty() ? 0 : levels_.back().indent, next = next_content(close_);
    if (depth > 0 && blame_opening(levels_.back().first, next_outside(i, depth - 1))) return;
    if (next < size() && indent_of(next) > depth && goes_on_with_brackets(next, depth)) blame_close(kNone, next);
  }

  /// The text behind | or > at `mark`: lines as deep as its first, or as a digit says.
  void read_block_text(std::size_t mark) {
    const bool has_depth = is_any_of(mark + 1, "123456789") || is_any_of(mark + 2, "123456789");
    std::size_t i = row_end(mark) + 1;
    for (; i < size(); i = row_end(i) + 1) {
      const std::size_t content = text().find_first_not_of(' ', i);
      if (content == kNone) break;
      if (at(content) == '\n') continue;
      const bool is_outside = !levels_.empty() && content - i <= levels_.back().indent;
      if (is_outside || (block_text_ != kNone && !has_depth && content - i < indent_of(block_text_))) break;
      if (block_text_ == kNone) block_text_ = content;
    }
    at_ = i;
    const std::size_t next = next_content(mark);
    if (block_text_ != kNone || next == size() || is_item(next) || colon_in_row(next) != kNone) return;
    blame(is_usually_indented(*this, first_of_row(mark)) ? next : mark,
          "a text behind | or > that is no deeper than its key, expected a deeper one");
  }

  void blame_indent(std::size_t above, std::size_t below) { mistake_ = wrong_indent(*this, above, below); }
  void tell_indent(std::size_t odd, std::size_t other) { mistake_ = odd_indent(*this, odd, other); }

  /// A line deeper than the one above it, which has its value already.
  void blame_deeper(std::size_t content) {
    const bool is_text = !is_item(content) && colon_of(content) == kNone;
    if (is_text && block_text_ != kNone && indent_of(content) < indent_of(block_text_)) {
      const bool is_usual = is_usually_indented(*this, line_, indent_of(content), false);
      if (is_usual == is_usually_indented(*this, line_, indent_of(block_text_), false))
        return blame_indent(block_text_, content);
      return is_usual ? tell_indent(block_text_, content) : tell_indent(content, block_text_);
    }
    if (close_ > line_ && goes_on_with_brackets(content, levels_.empty() ? 0 : levels_.back().indent))
      return blame_close(kNone, content);
    if (is_text) return blame(content, kNoColon);
    if (lacks_dash(*this, line_, content)) return blame(line_, kNoDash);
    if (is_item(content) && !is_item(line_) && line_colon_ == kNone) return blame(line_, kNoDash);
    if (is_after_empty_) return tell_indent(line_, content);
    const bool is_above_in_place = !levels_.empty() && levels_.back().first < row_start(line_);
    const std::size_t above = levels_.empty() ? line_ : std::max(line_, levels_.back().first);  // an item's key
    is_above_in_place ? tell_indent(content, line_) : blame_indent(above, content);
  }
  /// The bracket in a line that goes on with brackets which are closed.
  void blame_close(std::size_t inner, std::size_t content) {
    if (inner != kNone && blame_opening(inner, content)) return;
    blame(surplus_,
          fmt::format("the brackets end before a line that goes on with them, expected no {} here", at(surplus_)));
  }
  /// Of a map or list whose key above lost the bracket that is closed at `close`. Returns whether it did.
  bool blame_opening(std::size_t first, std::size_t close) {
    const std::size_t key = last_content(first);
    const char opening = at(close) == ']' ? '[' : '{';
    const bool is_closing = is_any_of(close, "]}") && is_empty_key(key);
    if (is_closing && (indent_of(key) == indent_of(close) || indent_of(behind_dashes(key)) == indent_of(close)))
      blame(key, fmt::format("no {} behind this key, but a {} below, expected both or none", opening, at(close)));
    return mistake_.has_value();
  }

  /// Whether an item as deep as a key is of that key's list, as lists stand in this text: what is between lost its
  /// dash.
  bool lost_dash_below(std::size_t key, std::size_t item) const {
    const std::size_t depth = indent_of(item);
    return is_empty_key(key) && !is_empty_key(item) && indent_of(key) == depth &&
           is_usually_indented(*this, key, depth, true);
  }
  /// Whether the last line above that is as deep is an item.
  bool is_behind_item(std::size_t line) const {
    std::size_t above = last_content(line);
    while (above > 0 && indent_of(above) > indent_of(line)) above = last_content(above);
    return is_item(above) && indent_of(above) == indent_of(line);
  }
  /// An item as deep as a pair, or a pair as an item. `inner`: the first line of what ends in front of it.
  void blame_kind(std::size_t inner, std::size_t content) {
    const std::size_t depth = indent_of(content);
    const bool is_list = is_item(content), is_below_pair = indent_of(line_) > depth && !is_item(line_);
    if (is_below_pair && line_colon_ != kNone && value_ == Value::awaited) {
      const std::size_t next = next_outside(content, depth);
      const bool is_first = !is_list || (next < size() && is_item(next) && indent_of(next) == depth);
      return is_first ? tell_indent(line_, content) : tell_indent(content, line_);
    }
    if (is_list && is_below_pair && line_colon_ == kNone) return blame(line_, kNoDash);
    if (is_list && indent_of(line_) == depth && (is_after_empty_ || is_behind_item(line_)))
      return blame(line_, kNoDash);
    if (is_list && inner != kNone && is_item(inner)) return blame_indent(inner, content);
    if (is_list && inner != kNone && lost_dash_below(last_content(inner), content)) return blame(inner, kNoDash);
    blame_fewer(levels_.back(), content);
  }

  /// Where items and pairs are as deep: the first of those that are fewer.
  void blame_fewer(const Level& level, std::size_t content) {
    std::size_t items = level.is_list, pairs = !level.is_list;
    bool is_of_key = false;  // an item of the key above it
    for (std::size_t i = next_content(level.first); i < size() && indent_of(i) >= level.indent; i = next_content(i)) {
      if (indent_of(i) > level.indent) continue;
      const std::size_t above = last_content(i);
      is_of_key = is_item(i) && (is_of_key || (indent_of(above) == level.indent && is_empty_key(above)));
      if (!is_of_key) ++(is_item(i) ? items : pairs);
    }
    const std::size_t item = first_of_row(level.first);
    const bool is_in_item = item != level.first;
    const std::size_t above = last_content(item);
    if ((is_in_item || level.is_list) && !is_usually_indented(*this, item)) {
      if (level.is_list) return tell_indent(colon_in_row(item) == kNone ? above : behind_dashes(item), content);
      if (is_usually_indented(*this, above, level.indent, true)) return tell_indent(item, content);
    }
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
  std::size_t surplus_ = 0;         // the one that is too many if a line goes on with brackets
  std::size_t block_text_ = kNone;  // the first line of its value, a text behind | or >
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
