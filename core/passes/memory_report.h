// The error report of a plan that does not fit the device: its largest tensors, and the batch that would fit.
#pragma once

#include <string>

#include "nixie/core/graph/plan.h"

namespace nixie {

/// The first size of the largest tensor in the arena: in a training step, the batch. 0 without an arena.
std::int64_t batch_of(const Plan& plan);

/// The largest batch below the plan's whose arena fits `free_bytes`, found by planning memory again; 0 if none does.
/// Scratch memory is assumed to grow with the batch.
std::int64_t largest_batch(const Plan& plan, std::int64_t scratch_bytes, std::int64_t free_bytes);

/// One line: the memory that the step needs, the free memory, its three largest tensors, and the largest batch that
/// fits.
std::string memory_report(const std::string& backend, const Plan& plan, std::int64_t scratch_bytes,
                          std::int64_t free_bytes);

}  // namespace nixie
