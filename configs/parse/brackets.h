// Finds the mistake in a list or map in brackets.
#pragma once

#include <optional>

#include "nixie/configs/parse/lines.h"
#include "nixie/configs/parse/mistake.h"

namespace nixie {

struct Brackets {
  std::size_t end = Lines::kNone;      ///< the bracket that closes it
  std::size_t surplus = Lines::kNone;  ///< the closing bracket that is one too many, if one is
  std::optional<Mistake> mistake{};
};

/// Reads the list or map in brackets that begins at `start`. `indent` is that of the map or list of lines around it:
/// a line that is no deeper stands behind it.
Brackets read_brackets(const Lines& lines, std::size_t start, std::size_t indent);

/// What is wrong with a quote that has no other end.
std::string never_closed(char quote);

}  // namespace nixie
