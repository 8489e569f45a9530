// Shells expand ~ at the start of a word only: not in YAML, within quotes, or behind the = of an option.
#include "nixie/core/base/path.h"

#include <cstdlib>

#include "nixie/core/base/error.h"

namespace nixie {

std::string with_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const char* const home = std::getenv("HOME");
  check(home && *home != '\0', path, ": ~ is the home folder, but HOME is not set; set it, or write the whole path");
  return home + path.substr(1);
}

}  // namespace nixie
