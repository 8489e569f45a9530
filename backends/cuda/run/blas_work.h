// Work of cuBLASLt: one call, with the algorithm that measured fastest.
#pragma once

#include <memory>

#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/run/work.h"

namespace nixie::cuda {

/// Asks the library for an algorithm; null for a problem with a ReLU where none is known to pass NaN on: all make zero
/// of it, or memory is too short to try them. Needs `device` to be current.
std::unique_ptr<Work> make_blas_work(const Plan& plan, const BlasProblem& problem, const Chip& device);

}  // namespace nixie::cuda
