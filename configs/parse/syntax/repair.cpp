// A row is compared with the rows beside it.
#include "nixie/configs/parse/syntax/repair.h"

#include <fmt/format.h>

#include "nixie/configs/parse/syntax/mistake.h"

namespace nixie {
namespace {

constexpr std::size_t kNone = Lines::kNone;
constexpr const char* kNoColon = "no `: ` in this line, expected `key: value`";
constexpr const char* kNoDash = "no `- ` in this line, expected `- item`, indented as the items beside it";
constexpr const char* kOddDash =
    "`- ` in front of a line among pairs, expected `key: value`, indented as the lines beside it";

class RowRepairs : Lines {
 public:
  RowRepairs(const Lines& lines, std::size_t row)
      : Lines(lines),
        row_(row),
        start_(row_start(row)),
        key_(key_of(row)),
        end_(end_of_text(row)),
        depth_(indent_of(row)),
        above_(row_above(row)) {}

  /// Characters that no line begins with.
  void add_starts() {
    const char c = at(key_);
    if (const std::size_t tab = text().find_first_not_of(' ', start_); at(tab) == '\t') {
      const char* what = "a tab in the indentation, expected spaces";
      repairs_.erase(tab, 1, tab, what);
      if (above_ != kNone) repairs_.replace(start_, depth_, std::string(indent_of(above_), ' '), tab, what);
    }
    if (at(start_) == '%') {
      repairs_.replace(start_, 1, "#", start_, kNoDirective);
      if (above_ != kNone) repairs_.erase(start_, size() - start_, start_, kNoDirective);
    }
    if (is_mark(row_) && (above_ != kNone || at(row_) == '.'))
      repairs_.erase(start_, size() - start_, start_, kFollows);
    if (c == '-' && !is_item(key_) && !is_mark(key_)) {
      const char* what = "no blank behind this -, expected `- item` or `key: value`";
      repairs_.insert(key_ + 1, at(key_ + 1) == ':' ? " key" : " ", key_, what);
      repairs_.erase(key_ + 1, 1, key_, what);
    }
    if (is_any_of(key_, "&*!") && at(end_of_word(key_) - 1) == ':')
      repairs_.erase(key_, 1, key_,
                     fmt::format("{} in front of a key, expected `key: value`, or quotes around the key", c));
  }

  void add_quotes() {
    for (std::size_t i = key_; i < end_; ++i) {
      if (!is_quote(i) || !may_begin_value(i)) continue;
      const std::size_t close = closing_quote(i);
      if (close >= end_) {
        add_open_quote(i);
        continue;
      }
      if (close + 1 < end_ && !is_colon(behind_blanks(close + 1))) {
        const std::string what =
            fmt::format("more follows the text in {} that begins here, expected nothing behind its end", at(i));
        repairs_.replace(close + 1, end_ - close - 1, ": x", i, what);
        repairs_.erase(close + 1, end_ - close - 1, i, what);
        repairs_.erase(i, 1, i, what);
      }
      i = close;
    }
  }

  /// A text without a colon could be a pair.
  void add_colons(std::size_t row) {
    add_opening_without_colon(*this, row, repairs_);
    const std::size_t key = key_of(row), colon = inner_colon(key);
    if (colon_in_row(key) != kNone || is_number(key)) return;
    if (colon != kNone) repairs_.insert(colon, at(colon - 1) == ':' ? " " : ":", key, kNoColon);
    repairs_.insert(end_of_text(key), ":", key, kNoColon);
  }

  void add_indentation() {
    if (above_ == kNone || is_empty_key(above_)) {  // the first of a block that is too deep
      std::size_t sibling = next_outside(row_, depth_);
      while (sibling < size() && is_item(sibling) != is_item(row_)) sibling = next_outside(sibling, indent_of(sibling));
      if (sibling < size()) shift(row_, indent_of(sibling), sibling);
    }
    if (above_ == kNone) return;
    const std::size_t key = behind_dashes(above_);
    for (std::size_t dash = above_; is_item(dash) && !is_item(row_); dash = behind_blanks(dash + 1))
      if (indent_of(dash) == depth_) erase_dash(dash);
    if (is_item(row_) && is_empty_key(above_) && indent_of(above_) > depth_) shift(above_, depth_, row_);
    if (is_empty_key(above_) && depth_ > indent_of(key)) return;  // its value
    add_unlike(above_);
    if (key != above_) add_unlike(key);
  }

  void add_dashes() {
    if (!is_item(row_)) {
      if (above_ == kNone || inner_colon(behind_dashes(above_)) == kNone) add_dash(row_);
      return;
    }
    if (colon_in_row(key_) == kNone) return;
    std::size_t first = above_;  // in the value of a key as deep as this row
    while (first != kNone && row_above(first) != kNone && indent_of(row_above(first)) > depth_)
      first = row_above(first);
    if (first != kNone && indent_of(first) > depth_ && !is_empty_key(row_)) add_dash(first);
    erase_dash(row_);
  }

  void add_larger() {
    const bool is_text = colon_in_row(key_) == kNone && !is_item(row_);
    const std::string words(text().substr(row_, end_ - row_));
    if (above_ != kNone) {
      const std::size_t key = behind_dashes(above_);
      if (key != above_ && is_text && depth_ != indent_of(key))
        repairs_.replace(start_, end_ - start_, std::string(indent_of(key), ' ') + words + ":", row_,
                         unlike(row_, key));
      shift(row_, indent_of(above_), above_);
      std::size_t item = above_;
      while (item != kNone && !(is_item(item) && indent_of(item) <= depth_)) item = row_above(item);
      if (item != kNone && !is_item(row_))
        repairs_.replace(start_, depth_, std::string(indent_of(item), ' ') + "- ", row_, kNoDash);
      if (is_text && !is_number(key_))
        repairs_.replace(start_, end_ - start_, std::string(indent_of(above_), ' ') + words + ":", row_, kNoColon);
    }
    const bool is_among_items = above_ != kNone && is_item(above_) && is_item(next_row(row_));
    if (is_text) repairs_.erase(key_, end_ - key_, key_, is_among_items ? kNoDash : kNoColon);
  }

  Repairs& repairs() { return repairs_; }

 private:
  bool is_number(std::size_t i) const { return is_any_of(i, "0123456789"); }
  bool is_mark(std::size_t row) const {
    const std::string_view mark = text().substr(row, 3);
    return indent_of(row) == 0 && (mark == "---" || mark == "...") && is_space(row + 3);
  }
  std::size_t key_of(std::size_t row) const { return behind_dashes(is_mark(row) ? behind_blanks(row + 3) : row); }

  /// Whether a value may begin here, also behind an anchor or tag.
  bool may_begin_value(std::size_t i) const {
    if (i == key_) return true;
    const std::size_t before = last_before(i), word = text().find_last_of(" \n", before) + 1;
    return is_colon(before) || is_any_of(before, "[{,") ||
           (is_any_of(word, "&!") && word > key_ && may_begin_value(word));
  }
  void add_open_quote(std::size_t i) {
    const std::string what = never_closed(at(i)), quote = (at(end_ - 1) == '\\' ? "\\" : "") + std::string(1, at(i));
    for (const std::size_t end : {end_, colon_in_row(i), text().find_first_of(",]}", i)})
      if (end <= end_) repairs_.insert(end, quote, i, what);
    repairs_.erase(i, 1, i, what);
    repairs_.erase(i, end_ - i, i, what);
  }

  /// Where the colon of a text may be missing: behind a colon that no blank follows, or at its first blank.
  std::size_t inner_colon(std::size_t key) const {
    const std::string_view words = text().substr(key, end_of_text(key) - key);
    const std::size_t found = words.substr(0, words.size() - 1).find_first_of(": ");
    return colon_in_row(key) != kNone || found == kNone ? kNone : key + found + (words[found] == ':');
  }

  void add_dash(std::size_t row) {
    if (indent_of(row) >= 2) repairs_.replace(row - 2, 2, "- ", row, kNoDash);
    repairs_.insert(row, "- ", row, kNoDash);
  }
  void erase_dash(std::size_t dash) { repairs_.erase(dash, behind_blanks(dash + 1) - dash, dash, kOddDash); }

  /// That this row and the one above, or its text behind dashes, are to be as deep: the one whose depth is rarer first.
  void add_unlike(std::size_t other) {
    if (is_item(other) != is_item(row_) || indent_of(other) == depth_) return;
    const std::size_t mine = rows_as_deep(row_), others = rows_as_deep(other), key = row_above(other);
    const bool is_value = key != kNone && !is_item(other) && is_empty_key(key) &&
                          indent_of(behind_dashes(key)) == indent_of(other);  // not deep enough
    const bool is_rarer = mine != others ? mine < others : depth_ % 2 >= indent_of(other) % 2;
    const bool is_first = is_rarer && !is_value;
    if (is_first) shift(row_, indent_of(other), first_beside(other));
    add_colons(above_);
    if (const std::size_t dashes = indent_of(other) - indent_of(above_); depth_ >= dashes)
      shift(above_, depth_ - dashes, row_);
    if (!is_first) shift(row_, indent_of(other), first_beside(other));
  }
  std::size_t rows_as_deep(std::size_t as) const {
    std::size_t times = 0;
    for (std::size_t row = first_row(); row < size(); row = next_row(row))
      times += indent_of(row) == indent_of(as) && is_item(row) == is_item(as);
    return times;
  }
  /// The first of the rows beside each other that end with this one.
  std::size_t first_beside(std::size_t last) const {
    std::size_t first = last;
    for (std::size_t row = row_above(last); row != kNone && indent_of(row) >= indent_of(last); row = row_above(row))
      if (indent_of(row) == indent_of(last) && is_item(row) == is_item(last)) first = row;
    return first;
  }
  std::string unlike(std::size_t row, std::size_t other) const {
    const std::string_view before = text().substr(0, other);
    return fmt::format(
        "this line is indented by {} and line {} by {}, expected the same indentation, or a `key:` above the deeper "
        "one",
        indent_of(row), std::count(before.begin(), before.end(), '\n') + 1, indent_of(other));
  }
  /// Makes a row as deep as another, alone and with the deeper rows below it.
  void shift(std::size_t row, std::size_t depth, std::size_t other) {
    const std::size_t start = row_start(row), now = indent_of(row);
    if (depth == now) return;
    repairs_.replace(start, now, std::string(depth, ' '), row, unlike(row, other));
    std::size_t last = row;
    for (std::size_t below = next_row(row); below < size() && indent_of(below) > now; below = next_row(below))
      last = below;
    if (last == row) return;
    std::string block;
    for (std::size_t i = start; i < row_end(last); i = row_end(i) + 1) {
      const std::size_t first = behind_blanks(i), deep = first - i + depth;
      block.append(deep < now ? 0 : deep - now, ' ').append(text().substr(first, row_end(first) - first)) += '\n';
    }
    block.pop_back();
    repairs_.replace(start, row_end(last) - start, block, row, unlike(row, other));
  }

  std::size_t row_, start_, key_, end_, depth_, above_;
  Repairs repairs_;
};

}  // namespace

void add_opening_without_colon(const Lines& lines, std::size_t row, Repairs& repairs) {
  const std::size_t key = lines.behind_dashes(row), end = lines.end_of_text(row), colon = lines.colon_in_row(key);
  for (std::size_t i = key + 1; i < end; ++i) {
    const bool is_block =
        lines.is_any_of(i, "|>") && lines.text().substr(i, end - i).find_first_not_of("|>+-123456789") == Lines::kNone;
    const bool is_bracket = lines.is_any_of(i, "[{") && (lines.is_space(i - 1) || lines.is_any_of(i - 1, ":="));
    if (!is_block && !is_bracket) continue;
    const std::size_t value = lines.behind_blanks(colon + 1);
    if (i < colon)
      repairs.insert(i, ": ", i, fmt::format("no `: ` in front of this {}, expected `key: value`", lines.at(i)));
    else if (value < i)
      repairs.erase(value, i - value, i,
                    fmt::format("there is more between the colon and this {}, expected `key: value`", lines.at(i)));
    return;
  }
}

std::vector<Repair> repairs_of(const Lines& lines, const Brackets& brackets, std::size_t row) {
  RowRepairs all(lines, row);
  all.add_starts();
  all.add_quotes();
  add_bracket_repairs(lines, brackets, row, all.repairs());
  if (brackets.are_around(row)) return all.repairs().take();
  all.add_colons(row);
  all.add_indentation();
  all.add_dashes();
  return all.repairs().take();
}

std::vector<Repair> larger_repairs_of(const Lines& lines, const Brackets& brackets, std::size_t row) {
  RowRepairs all(lines, row);
  if (!brackets.are_around(row)) all.add_larger();
  return all.repairs().take();
}

}  // namespace nixie
