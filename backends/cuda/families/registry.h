// The list of families: which takes a kernel, and the program of a group.
#pragma once

#include <span>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// All families in the order in which they are asked: specialised ones first, the portable templates last.
std::span<const Family* const> families();

/// The families that run a kernel: the first that accepts it, and those that compete with that one.
std::shared_ptr<Implementers> take(const Plan& plan, const Kernel& kernel, const Chip& chip);

/// Puts choices in the order of their fastest algorithms.
void sort_by_estimate(const Plan& plan, std::vector<Choice>& choices, const Chip& chip);

/// The program of a group that was lowered for the chip; the text does not depend on where slots are, so equal groups
/// compile once. `algorithm`: one of the code's by name, the first where it is empty. Throws Fault::usage for an
/// unknown one, and for a group that a library computes.
KernelCode generate(const Plan& plan, const Group& group, const Chip& chip, const std::string& algorithm = {});
/// The same of a kernel as it is.
KernelCode generate(const Plan& plan, const Kernel& kernel, const Chip& chip, const std::string& algorithm = {});

/// Why families refused a group's kernel, and which took it, in one line.
std::string explain(const Plan& plan, const Group& group);

}  // namespace nixie::cuda
