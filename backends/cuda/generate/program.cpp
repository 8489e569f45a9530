// Parts of generated programs that all templates share.
#include "nixie/backends/cuda/generate/program.h"

#include <algorithm>

namespace nixie::cuda {

bool has_algorithm(const KernelCode& code, const std::string& name) {
  return std::ranges::count(code.algorithms, name, &Algorithm::name) > 0;
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

std::string products_of_columns(const std::vector<int>& columns) {
  std::string text = "#define NIXIE_PRODUCTS";
  for (const int n : columns) {
    const int sums = n / 2;  // of a thread; the asm's operands are numbered, these first
    std::string names = "%0", operands = "NIXIE_SUM_IN(d[0])";
    for (int i = 1; i < sums; ++i) names += fmt::format(",%{}", i), operands += fmt::format(", NIXIE_SUM_IN(d[{}])", i);
    text += fmt::format(" NIXIE_WGMMA({}, {}, \"{}\"", n, sums, names);
    for (int i = 0; i < 5; ++i) text += fmt::format(", \"%{}\"", sums + i);
    text += ", " + operands + ")";
  }
  return text + "\n";
}

}  // namespace nixie::cuda
