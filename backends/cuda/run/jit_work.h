// Work of generated kernels: loads cubins and launches them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/generate/program.h"
#include "nixie/backends/cuda/run/work.h"

namespace nixie::cuda {

/// Compiles the programs and makes one GroupWork of each; equal programs share their code.
std::vector<std::unique_ptr<GroupWork>> make_jit_work(const Device& device, std::span<const KernelCode> codes);

}  // namespace nixie::cuda
