// trainer completion: the commands and options as a script for the shell.
#pragma once

#include <string>

namespace nixie {

/// For bash: `source <(trainer completion)`.
std::string completion_text();

}  // namespace nixie
