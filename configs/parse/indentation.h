// Finds which of two lines that should be as deep is out of place.
#pragma once

#include "nixie/configs/parse/lines.h"
#include "nixie/configs/parse/mistake.h"

namespace nixie {

inline constexpr const char* kNoDash = "no `- ` in this line, expected `- item`, indented as the items beside it";

/// Whether a line is as much deeper than the key above it, whose value it begins, as most such lines of the text.
bool is_usually_indented(const Lines& lines, std::size_t line);
/// Whether a line at that depth would be so below that key.
bool is_usually_indented(const Lines& lines, std::size_t key, std::size_t depth, bool is_item);

/// Whether a line lost its dash: those below it are deeper, and an item as deep as it follows them.
bool lacks_dash(const Lines& lines, std::size_t line, std::size_t below);

/// That a line is not as deep as the other.
Mistake odd_indent(const Lines& lines, std::size_t odd, std::size_t other);

/// Of two lines that should be as deep, the deeper one if another line below is as deep as the other; else the one
/// that is not as much deeper than its key as is usual, or whose indentation is rarer, or odd.
Mistake wrong_indent(const Lines& lines, std::size_t above, std::size_t below);

}  // namespace nixie
