// The lines of a YAML text, read by byte.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace nixie {

/// A row is a line, named by the place of its first character that is no blank.
class Lines {
 public:
  static constexpr std::size_t kNone = std::string_view::npos;

  explicit Lines(std::string_view text) : text_(text) {}

  std::string_view text() const { return text_; }
  std::size_t size() const { return text_.size(); }
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\n'; }
  bool is_space(std::size_t i) const { return at(i) == ' ' || at(i) == '\t' || at(i) == '\n'; }
  std::size_t row_end(std::size_t i) const { return std::min(text_.find('\n', i), text_.size()); }
  std::size_t row_start(std::size_t i) const { return i == 0 ? 0 : text_.rfind('\n', i - 1) + 1; }
  std::size_t behind_blanks(std::size_t i) const { return std::min(text_.find_first_not_of(" \t", i), text_.size()); }
  std::size_t end_of_word(std::size_t i) const { return std::min(text_.find_first_of(" \t\n", i), text_.size()); }
  std::size_t first_of_row(std::size_t i) const { return behind_blanks(row_start(i)); }
  std::size_t indent_of(std::size_t i) const { return i - row_start(i); }
  bool is_content(std::size_t i) const { return at(i) != '\n' && at(i) != '#'; }
  bool is_item(std::size_t i) const { return at(i) == '-' && is_space(i + 1); }
  bool is_colon(std::size_t i) const { return at(i) == ':' && is_space(i + 1); }
  bool is_quote(std::size_t i) const { return at(i) == '"' || at(i) == '\''; }
  bool is_any_of(std::size_t i, std::string_view characters) const { return characters.find(at(i)) != kNone; }
  bool is_comment(std::size_t i) const {
    return at(i) == '#' && (i == 0 || is_space(i - 1) || is_any_of(i - 1, "[]{},"));
  }

  /// The first row that is no comment; the size of the text where there is none.
  std::size_t first_row() const { return is_content(behind_blanks(0)) ? behind_blanks(0) : next_row(0); }
  /// The next row that is no comment; the size of the text where none follows.
  std::size_t next_row(std::size_t i) const;
  /// The next row that is no deeper than `indent`.
  std::size_t next_outside(std::size_t i, std::size_t indent) const;
  /// The row above, which is no comment; kNone where there is none.
  std::size_t row_above(std::size_t i) const;
  /// The rows down to a line, the last first, in which a mistake may be that is noticed there: those that are no deeper
  /// than the rows below them, the row above each of these, the first of a deeper block, and those with brackets or
  /// quotes, which may go on over many lines.
  std::vector<std::size_t> rows_down_to(int line) const;

  /// The first colon behind a word of that row; kNone where there is none.
  std::size_t colon_in_row(std::size_t i) const;
  /// The key or value of a row, behind its dashes.
  std::size_t behind_dashes(std::size_t i) const;
  /// Whether a row holds a key whose value is below it.
  bool is_empty_key(std::size_t row) const;
  /// The end of a row's text, in front of blanks and a comment.
  std::size_t end_of_text(std::size_t i) const;
  /// The last character in front of this one that is no blank; kNone where there is none.
  std::size_t last_before(std::size_t i) const;
  /// The quote that ends the text that begins here; kNone for a quote that nothing closes, or only the next one does,
  /// which opens another text.
  std::size_t closing_quote(std::size_t start) const;

 private:
  std::string_view text_;
};

}  // namespace nixie
