// Parts of generated programs that all templates share.
#include "nixie/backends/cuda/generate/program.h"

#include <algorithm>

namespace nixie::cuda {

bool has_algorithm(const KernelCode& code, const std::string& name) {
  return std::any_of(code.algorithms.begin(), code.algorithms.end(),
                     [&](const Algorithm& algorithm) { return algorithm.name == name; });
}

std::string entry_point(const std::string& name, const std::string& bounds, const std::string& call) {
  return fmt::format(
      "\nextern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ Body body) {{ {}; }}\n", bounds,
      name, call);
}

std::string defines(const std::vector<std::pair<const char*, std::int64_t>>& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format("#define {} {}\n", name, value);
  return text;
}

}  // namespace nixie::cuda
