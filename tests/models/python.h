// Runs the Python scripts beside the tests of exchange.
#pragma once

#include "nixie/tests/test.h"

#include <sys/wait.h>

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

struct PythonRun {
  int code = 0;
  std::string output = {};
};

/// Runs a script in tests/models with its arguments.
inline PythonRun run_python(const std::string& command) {
  PythonRun run;
  std::FILE* pipe = ::popen((python() + " " + NIXIE_SOURCE_DIR + "/tests/models/" + command + " 2>&1").c_str(), "r");
  char part[4096];
  while (const std::size_t bytes = pipe ? std::fread(part, 1, sizeof part, pipe) : 0) run.output.append(part, bytes);
  run.code = pipe ? WEXITSTATUS(::pclose(pipe)) : -1;
  return run;
}

}  // namespace nixie
