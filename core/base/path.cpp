// Shells expand ~ at the start of a word only: not in YAML, within quotes, or behind the = of an option.
#include "nixie/core/base/path.h"

#include <cstdlib>

namespace nixie {

std::string with_home(const std::string& path) {
  const char* const home = std::getenv("HOME");
  const bool is_home = path == "~" || path.starts_with("~/");
  return home && *home != '\0' && is_home ? home + path.substr(1) : path;
}

}  // namespace nixie
