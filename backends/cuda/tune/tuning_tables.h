// NIXIE_TUNING, the tables of measured algorithms, and lookups in them; run/autotune.h chooses each group's algorithm.
#pragma once

#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/tune/tuning_database.h"

namespace nixie::cuda {

/// $NIXIE_TUNING, read whenever a plan is compiled.
enum class Tuning {
  off,      ///< "off": estimates alone, cuBLASLt's first proposal; results depend on shapes only
  known,    ///< "known", or nothing: tables of measurements
  measure,  ///< "measure": also measures operations that no table has
  again     ///< "again": measures everything once, also operations in tables
};
/// Throws a usage Error for an unknown value.
Tuning tuning();

/// The user's table: `tuning.tsv` in the folder of the cubin cache.
std::filesystem::path user_table();
/// The tables of this process: nixie's own, overridden by the lines of the user's. Not for two threads at once.
TuningDatabase& known_tuning();

/// The code of a group with the algorithm of its table line, else with the first. Throws Fault::usage if the
/// group has no algorithm of that name, and the line is of the user's table.
KernelCode generate_known(const Plan& plan, const Group& group, const Chip& chip, const std::string& device,
                          const TuningDatabase& known);

}  // namespace nixie::cuda
