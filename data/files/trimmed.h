// trimmed: a cell of a table, or a class in a file, without the blanks around it.
#pragma once

#include <string>
#include <string_view>

namespace nixie {

/// How many bytes a blank at the front of the text has, 0 where there is none. Blanks are spaces, tabs, ends of lines,
/// Unicode's spaces (as spreadsheets and web pages leave behind words) and the byte order mark.
std::size_t leading_blank(std::string_view text);

/// The text without blanks at its front and its end.
std::string_view trimmed(std::string_view text);

}  // namespace nixie
