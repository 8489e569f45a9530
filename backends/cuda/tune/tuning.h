// Which way each kernel of a plan is computed: by what was measured before, by measuring now, or by estimates alone.
#pragma once

#include <span>

#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/generate/codegen.h"
#include "nixie/backends/cuda/tune/tuning_database.h"

namespace nixie::cuda {

/// $NIXIE_TUNING, read whenever a plan is compiled.
enum class Tuning {
  off,      ///< "off": estimates alone, cuBLASLt's first proposal; results depend on shapes only
  known,    ///< "known", or nothing: tables of what was measured
  measure,  ///< "measure": also measures what no table has
  again     ///< "again": measures everything once, whatever tables have
};
/// Throws a usage Error for another word.
Tuning tuning();

/// What this process knows: nixie's own table, and in place of its lines those of `tuning.tsv` in the folder of the
/// cubin cache. Not for two threads at once.
TuningDatabase& known_tuning();

/// The code of a kernel in the way that the table has for it, else in the first. Throws Fault::usage where the kernel
/// cannot be computed in the way that a line names.
KernelCode generate_known(const Plan& plan, const Kernel& kernel, bool hopper, const std::string& device,
                          const TuningDatabase& known);

/// The code of these kernels of the plan. What is measured is printed to stderr and added to the user's table.
std::vector<KernelCode> generate_tuned(Device& device, const Plan& plan, std::span<const std::size_t> kernels);

}  // namespace nixie::cuda
