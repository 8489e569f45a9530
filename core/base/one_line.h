// one_line: escapes control characters, so that a text cannot break, hide or rewrite a message's line.
#pragma once

#include <string>
#include <string_view>

namespace nixie {

/// Control characters, those of Unicode's Latin-1 block and text directions too, and bytes that are no UTF-8 become C++
/// escapes (backslash n, backslash x1b, backslash u202e); all else stays.
std::string one_line(std::string_view text);

}  // namespace nixie
