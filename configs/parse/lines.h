// The lines of a YAML text, read by byte: what scans for a mistake shares it.
#pragma once

#include <algorithm>
#include <string_view>

namespace nixie {

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
  bool is_item(std::size_t i) const { return at(i) == '-' && is_space(i + 1); }
  bool is_colon(std::size_t i) const { return at(i) == ':' && is_space(i + 1); }
  bool is_comment(std::size_t i) const { return at(i) == '#' && (i == 0 || is_space(i - 1)); }
  bool is_quote(std::size_t i) const { return at(i) == '"' || at(i) == '\''; }
  bool is_any_of(std::size_t i, std::string_view characters) const { return characters.find(at(i)) != kNone; }

  /// Whether the rest of a row holds no other characters than those.
  bool is_only(std::size_t i, std::string_view characters) const;
  /// Whether a row goes on with a list or map in brackets: it begins with a part of one, or it and the deeper rows
  /// below close more than they open.
  bool goes_on_with_brackets(std::size_t i, std::size_t indent) const;
  /// The first colon behind a word of that row; kNone where there is none.
  std::size_t colon_in_row(std::size_t i) const;
  /// Where the key or value of a row stands whose text begins there.
  std::size_t behind_dashes(std::size_t i) const;
  /// Whether a row whose text begins there holds a key, and its value stands below it.
  bool is_empty_key(std::size_t i) const;
  /// The next text behind a row, which is no comment; the size of the whole where none follows.
  std::size_t next_content(std::size_t i) const;
  /// The next text behind a row that is no deeper than `indent`.
  std::size_t next_outside(std::size_t i, std::size_t indent) const;
  /// The same above a row; 0 where there is none.
  std::size_t last_content(std::size_t i) const;
  /// Where a quoted text ends that begins here; kNone for a quote that nothing closes, or only the next one does,
  /// which opens another text.
  std::size_t closing_quote(std::size_t start) const;

 private:
  std::string_view text_;
};

}  // namespace nixie
