// Times the ways to compute a kernel and picks the fastest.
#pragma once

#include <span>

#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/generate/codegen.h"
#include "nixie/backends/cuda/run/work.h"
#include "nixie/backends/cuda/tune/tuning_database.h"

namespace nixie::cuda {

/// The ways that the estimate leaves, best first: at most six, none above 1.3 times the best.
std::vector<Way> worth_timing(std::vector<Way> ways);

/// Times the ways of these kernels of a plan, which all have some, and prints to stderr what was found for each. Every
/// launch of a CUDA graph has other memory, more than the L2 cache holds, of random numbers. Throws Fault::memory.
std::vector<Tuned> time_ways(Device& device, const Plan& plan, std::span<const std::size_t> kernels);

}  // namespace nixie::cuda
