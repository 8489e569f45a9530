// Commands of the shell: what they printed and how they ended.
#pragma once

#include <sys/wait.h>

#include "nixie/tests/test.h"

namespace nixie::test {

struct Ran {
  int code = 0;              ///< exit status; 128 + signal where it was killed
  std::string output = {};   ///< of stdout and stderr
  std::string command = {};  ///< as the shell read it
};

inline Ran run_shell(const std::string& command) {
  Ran ran{.command = command};
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return {.code = -1};
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) ran.output.append(buffer, got);
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace nixie::test
