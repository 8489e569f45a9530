// Bulk random numbers from cuRAND, for benchmarks and tests; not equal to the CPU's.
#pragma once

#include "nixie/core/graph/backend.h"

namespace nixie::cuda {

/// Fills memory of the CUDA backend with f32 numbers, uniform in (0, 1]. Waits for the device before and after.
void fill_uniform(Buffer& buffer, std::uint64_t seed);
/// The same with standard normals; the buffer holds an even number of them.
void fill_normal(Buffer& buffer, std::uint64_t seed);

}  // namespace nixie::cuda
