// Work of generated kernels: loads cubins and launches them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/generate/program.h"
#include "nixie/backends/cuda/run/work.h"

namespace nixie::cuda {

/// Begins to compile the programs for a device, which other threads may use meanwhile.
std::unique_ptr<Compilation> compile_programs(const Device& device, std::span<const KernelCode> codes);
/// Makes one GroupWork of each program and its cubin; equal programs share their code. The device must be current.
std::vector<std::unique_ptr<GroupWork>> make_jit_work(std::span<const KernelCode> codes, std::span<const Cubin> cubins);
/// Compiles the programs and makes one GroupWork of each.
std::vector<std::unique_ptr<GroupWork>> make_jit_work(const Device& device, std::span<const KernelCode> codes);

}  // namespace nixie::cuda
