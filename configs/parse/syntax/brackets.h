// The brackets in a YAML text that open and close lists and maps.
#pragma once

#include <vector>

#include "nixie/configs/parse/syntax/lines.h"

namespace nixie {

struct Bracket {
  std::size_t at;
  // A closing one:
  std::size_t opening = Lines::kNone;  ///< the innermost that is open
  std::size_t odd =
      Lines::kNone;        ///< what is in the wrong brackets: a pair in [], or the colon or ] above a word in {}
  std::size_t closes = 0;  ///< brackets: two where it fits the second only, none where it fits neither
};

class Brackets {
 public:
  explicit Brackets(const Lines& lines);

  const std::vector<Bracket>& all() const { return all_; }
  /// The brackets that are open at a place.
  std::vector<std::size_t> open_at(std::size_t end) const;
  /// Whether brackets are open where a row begins.
  bool are_around(std::size_t row) const { return !open_at(lines_.row_start(row)).empty(); }
  /// Whether a bracket closes one of another indentation than that of its row, which it begins.
  bool is_askew(const Bracket& bracket) const;

 private:
  struct Open;
  void end_entry(Open& inner) const;
  void read_closing(std::size_t i, std::vector<Open>& open);

  Lines lines_;
  std::vector<Bracket> all_;
};

/// `}` for `{`.
inline char closing_of(char opening) { return opening == '{' ? '}' : ']'; }

}  // namespace nixie
