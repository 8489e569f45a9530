// one_line: escapes control characters, so that a text cannot break or hide a message's line.
#pragma once

#include <string>
#include <string_view>

namespace nixie {

/// Control characters become C++ escapes (backslash n, backslash x0A); all else stays.
std::string one_line(std::string_view text);

}  // namespace nixie
