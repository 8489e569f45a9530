// How messages print texts: one_line, whose control characters cannot break, hide or rewrite a line, and shell_word.
#pragma once

#include <string>
#include <string_view>

namespace nixie {

/// Control characters, those of Unicode's Latin-1 block and text directions too, and bytes that are no UTF-8 become C++
/// escapes (backslash n, backslash x1b, backslash u202e); all else stays.
std::string one_line(std::string_view text);

/// The text as bash reads it back from one line: plain words as they are, others in single quotes, and such that
/// one_line would change (control characters, what is no UTF-8) in ASCII as $'a\nb'.
std::string shell_word(std::string_view text);

}  // namespace nixie
