// The list of families; chooses the families of a kernel, and generates a group's program.
#pragma once

#include <span>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// All families in order of precedence: specialised ones first, the portable templates last.
std::span<const Family* const> families();

/// The families that can run a kernel: the first that accepts it, and those that compete with it.
std::shared_ptr<Implementers> take(const Plan& plan, const Kernel& kernel, const Chip& chip);

/// Sorts choices by their fastest algorithms.
void sort_by_estimate(const Plan& plan, std::vector<Choice>& choices, const Chip& chip);

/// The program of a group that was lowered for the chip; the source does not depend on slot addresses, so equal groups
/// compile once. `algorithm`: one of the code's by name, the first if empty. Throws Fault::usage for an
/// unknown one, and for a group that a library computes.
KernelCode generate(const Plan& plan, const Group& group, const Chip& chip, const std::string& algorithm = {});
/// The same for a single kernel.
KernelCode generate(const Plan& plan, const Kernel& kernel, const Chip& chip, const std::string& algorithm = {});

/// What a group runs by estimate, and how long it takes: a kernel of a library or without an estimate of its own as
/// long as its operations and bytes at the chip's rates.
struct Price {
  std::string program = {};    ///< "conv_fprop_sm90 256x128"
  std::string operation = {};  ///< the key of the tuning table; empty: there is none
  double seconds = 0;
};
Price price_of(const Plan& plan, const Group& group, const Chip& chip);

/// The refusals of a group's kernel, and the family that took it, in one line.
std::string explain(const Plan& plan, const Group& group);

}  // namespace nixie::cuda
