// Work of cuBLASLt: one call, with the fastest measured algorithm.
#pragma once

#include <memory>

#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/run/work.h"

namespace nixie::cuda {

/// Gets an algorithm from the library. Null for a problem with a ReLU if no algorithm is known to propagate NaN,
/// because all turn it into zero or because there is not enough memory to try them. `device` must be current.
std::unique_ptr<GroupWork> make_blas_work(const Plan& plan, const BlasProblem& problem, const Chip& device);

}  // namespace nixie::cuda
