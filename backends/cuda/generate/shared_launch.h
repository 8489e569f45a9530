// Programs of one launch, and shared launches of programs that differ only in numbers. Needs no GPU.
#pragma once

#include <string>
#include <vector>

#include "nixie/backends/cuda/generate/program.h"

namespace nixie::cuda {

/// The parts of a program around `struct Body`. Its template is called with a Body and a block index.
struct OneLaunch {
  std::string includes = {};  ///< lines of text
  std::string body = {};      ///< `struct Body { ... };`; its pointers are the arguments in order
  std::string call = {};      ///< the template: "map"
  std::string bounds = {};    ///< launch bounds, as for entry_point
  std::vector<Argument> arguments = {};
  std::int64_t blocks = 0;
  int threads = 0;
  std::int64_t scratch_bytes = 0;
  std::string variant = {};
};

/// The program by itself.
KernelCode code_of(const OneLaunch& launch);

/// Its source without the numbers that may become data: those in functions of Body, and Body's constants of
/// type Index. Programs of equal patterns can share a launch.
std::string pattern_of(const OneLaunch& launch);

/// The number of such programs, all of equal patterns, that fit the argument of a launch, 4 KB.
std::size_t most_in_one_launch(const std::vector<OneLaunch>& launches);

/// One launch for programs of equal patterns: the numbers that differ become members of Body, and every program
/// has a row of a table (table.cuh).
KernelCode share_launch(const std::vector<OneLaunch>& launches);

}  // namespace nixie::cuda
