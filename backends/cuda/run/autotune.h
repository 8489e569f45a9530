// Autotunes the groups of a plan: the one place that picks each group's algorithm, by table
// (tune/tuning_tables.h), by measurement or, in families/registry.cpp, by estimate (Family::algorithms:
// wgmma_tiles.cpp, conv_ffma.cpp, generate/products/tiles.h).
#pragma once

#include <span>

#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/tune/tuning_tables.h"

namespace nixie::cuda {

/// The best algorithms by estimate, in order: at most six, none above 1.3 times the best.
std::vector<Algorithm> worth_timing(std::vector<Algorithm> algorithms);

/// The code of these groups of the plan, lowered for a chip. Measurements are printed to stderr and added to the
/// user's table. Throws Fault::memory.
std::vector<KernelCode> generate_tuned(Device& device, const Chip& chip, const Plan& plan,
                                       std::span<const std::size_t> groups);

}  // namespace nixie::cuda
