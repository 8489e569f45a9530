// shell_word: a text as a word of a command that a message prints.
#pragma once

#include <string>
#include <string_view>

namespace nixie {

/// The text as bash reads it back from one line: plain words as they are, others in single quotes, and such that
/// one_line would change (control characters, what is no UTF-8) in ASCII as $'a\nb'.
std::string shell_word(std::string_view text);

}  // namespace nixie
