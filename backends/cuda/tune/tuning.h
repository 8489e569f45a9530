// NIXIE_TUNING, the tables of measured algorithms, and a group's program by them.
#pragma once

#include "nixie/backends/cuda/families/registry.h"
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

/// The user's table: `tuning.tsv` in the folder of the cubin cache.
std::filesystem::path user_table();
/// What this process knows: nixie's own table, and in place of its lines those of the user's. Not for two threads at
/// once.
TuningDatabase& known_tuning();

/// The code of a group by the algorithm that the table has for it, else by the first. Throws Fault::usage where the
/// group has no algorithm of the name in its line.
KernelCode generate_known(const Plan& plan, const Group& group, const Chip& chip, const std::string& device,
                          const TuningDatabase& known);

}  // namespace nixie::cuda
