// What NVIDIA's compiler says of a kernel that will not run as it is written: the tests that compile kernels hold them
// to it; at run time nothing is checked.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>

namespace nixie::cuda {

/// The most bytes of registers that a kernel of a compiler's log spills to memory.
inline int spilled_bytes_of(const std::string& log) {
  int most = 0;
  for (std::size_t at = 0; (at = log.find(" bytes spill stores", at)) != std::string::npos; ++at) {
    std::size_t begin = at;
    while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9') --begin;
    most = std::max(most, std::atoi(log.substr(begin, at - begin).c_str()));
  }
  return most;
}

/// The lines of a compiler's log that tell of warnings, of tensor-core products made to wait for each other, of ignored
/// register budgets, and of more than `spilled_bytes` of registers in memory; "" where there are none.
inline std::string complaints(const std::string& log, int spilled_bytes = 0) {
  std::string found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    for (const char* message : {"warning", "Performance Loss", "warpgroup.wait is injected"})
      if (line.find(message) != std::string::npos) found += line + "\n";
  if (const int spilled = spilled_bytes_of(log); spilled > spilled_bytes)
    found += fmt::format("{} bytes are spilled\n", spilled);
  return found;
}

}  // namespace nixie::cuda
#endif
