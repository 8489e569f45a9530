// trainer completion: a shell script that completes commands and options.
#pragma once

#include <string>

namespace nixie {

/// For bash: `source <(trainer completion)`.
std::string completion_text();

}  // namespace nixie
