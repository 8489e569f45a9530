// Runs the Python scripts beside the tests of exchange.
#pragma once

#include "nixie/tests/shell.h"

namespace nixie {

/// NIXIE_PYTHON, or python3.
inline std::string python() {
  const char* chosen = std::getenv("NIXIE_PYTHON");
  return chosen ? chosen : "python3";
}

/// Whether it has modules, `a, b`.
inline bool python_has(const std::string& modules) {
  return std::system((python() + " -c 'import " + modules + "' 2>/dev/null").c_str()) == 0;
}

/// Runs a script in tests/models with its arguments.
inline test::Ran run_python(const std::string& command) {
  return test::run_shell(python() + " " + NIXIE_SOURCE_DIR + "/tests/models/" + command);
}

}  // namespace nixie
