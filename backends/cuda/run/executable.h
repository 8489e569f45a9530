// The executable of a plan: its work in one arena, replayed as one CUDA graph.
#pragma once

#include <memory>

#include "nixie/backends/cuda/device/device.h"
#include "nixie/core/graph/backend.h"

namespace nixie::cuda {

/// Compiles every group of a lowered plan (in parallel, through the cache) and allocates its arena. Throws
/// Fault::memory with the largest slots if that does not fit. The first run, and every run with NIXIE_SYNC=1, waits
/// for each group, so that a failure names its kernels; NIXIE_TRACE=time prints the time of each.
std::unique_ptr<Executable> make_executable(std::shared_ptr<Device> device, const Plan& plan);

}  // namespace nixie::cuda
