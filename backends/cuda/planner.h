// Planning for a GPU that need not be there: which kernels a plan becomes, and what they are estimated to take.
#pragma once

#include "nixie/core/graph/backend.h"

namespace nixie {

/// Plans as the CUDA backend does on a chip by name (chip.h), and runs nothing. Throws Fault::usage for an unknown
/// chip.
std::shared_ptr<Backend> make_cuda_planner(const std::string& chip);

/// The groups of a plan that this planner lowered, a line each: estimated microseconds, the kernel with its tile, what
/// it computes. Then their sum, one after another.
std::string cuda_kernel_table(const Plan& plan, const std::string& chip);

}  // namespace nixie
