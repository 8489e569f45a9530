// What NVIDIA's compiler says of a kernel that will not run as it is written.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include <sstream>
#include <string>

#include "nixie/backends/cuda/compile/jit.h"

namespace nixie::cuda {

/// The lines of a compiler's log that tell of warnings, of tensor-core products made to wait for each other, of ignored
/// register budgets, and of more than `spilled_bytes` of registers in memory; "" where there are none.
inline std::string complaints(const std::string& log, int spilled_bytes = 0) {
  std::string found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    for (const char* message : {"warning", "Performance Loss", "warpgroup.wait is injected"})
      if (line.find(message) != std::string::npos) found += line + "\n";
  if (const int spilled = resource_use(log).spilled_bytes; spilled > spilled_bytes)
    found += fmt::format("{} bytes are spilled\n", spilled);
  return found;
}

}  // namespace nixie::cuda
#endif
