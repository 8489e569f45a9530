// Wildcards: names that a pattern selects.
#pragma once

#include <string_view>

namespace nixie {

/// Whether the whole text is what the pattern says; * matches any text, the empty one included.
bool matches_wildcard(std::string_view text, std::string_view pattern);

}  // namespace nixie
