// Plans compiled by tables of our own, so that kernels are tested by each of their algorithms.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "nixie/backends/cuda/device/device.h"
#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/tune/tuning_tables.h"
#include "nixie/core/passes/memory.h"

namespace nixie {

/// The first device's chip; and a table for each algorithm that groups of the plan have there.
inline cuda::Chip chip_of_device() { return chip_to_choose_for(cuda::Device::open(0)->chip()); }
inline std::map<std::string, cuda::TuningDatabase> tables_of(Plan plan, const cuda::Chip& chip = chip_of_device()) {
  const auto device = cuda::Device::open(0);
  cuda::lower(plan, chip);
  plan_memory(plan);
  std::map<std::string, cuda::TuningDatabase> tables;
  for (const Group& group : plan.groups) {
    if (cuda::blas_problem(group)) continue;
    const cuda::KernelCode code = cuda::generate(plan, group, chip);
    for (const cuda::Algorithm& algorithm : code.algorithms)
      tables[algorithm.name].keep({.device = device->name(), .operation = code.operation, .algorithm = algorithm.name});
  }
  return tables;
}

/// One of them, and the empty one: the estimates' algorithms.
inline std::map<std::string, cuda::TuningDatabase> two_tables_of(const Plan& plan,
                                                                 const cuda::Chip& chip = chip_of_device()) {
  std::map<std::string, cuda::TuningDatabase> tables = tables_of(plan, chip);
  if (!tables.empty()) tables.erase(tables.begin(), std::prev(tables.end()));
  tables["estimate"];
  return tables;
}

/// Plans are compiled by this table while it lives.
class CompiledBy {
 public:
  explicit CompiledBy(const cuda::TuningDatabase& table)
      : before_(std::exchange(cuda::known_tuning(), table)), mode_before_(std::getenv("NIXIE_TUNING")) {
    setenv("NIXIE_TUNING", "known", 1);
  }
  ~CompiledBy() {
    setenv("NIXIE_TUNING", mode_before_.c_str(), 1);
    cuda::known_tuning() = before_;
  }
  CompiledBy(const CompiledBy&) = delete;
  CompiledBy& operator=(const CompiledBy&) = delete;

 private:
  cuda::TuningDatabase before_;
  std::string mode_before_;  // set by tests/tuning_off.cpp, where by nobody else
};

}  // namespace nixie
#endif
