// `benchmark numerics`: how far products of f32 are from exact ones, for each policy and distribution of operands.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nixie::benchmark {

struct NumericsCommand {
  std::string backend = "auto";
  int threads = 0;                            ///< of the CPU, 0 = all
  std::vector<std::string> precisions = {};   ///< of f32; empty: ieee, fp32 and tf32 on a GPU, fp32 on a CPU
  std::filesystem::path json = {}, csv = {};  ///< empty: not written
};

/// The error of a result is |y - exact| / sum |a||b|, in units of 2^-24.
struct NumericsRow {
  std::string precision = {}, distribution = {};
  double largest = 0;      ///< over all results of all layers and roles
  std::string where = {};  ///< the layer and role of the largest
  double median = 0;       ///< over layers and roles, of the largest of each
};

/// Prints the table and writes the files. Throws Error; Fault::non_finite where a result is not finite.
std::vector<NumericsRow> run_numerics(const NumericsCommand& command);

}  // namespace nixie::benchmark
