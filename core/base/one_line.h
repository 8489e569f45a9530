// one_line: a text in which nothing can end or hide the line of a message.
#pragma once

#include <string>
#include <string_view>

namespace nixie {

/// Control characters become what C++ would write in quotes (backslash n, backslash x0A); all else stays.
std::string one_line(std::string_view text);

}  // namespace nixie
