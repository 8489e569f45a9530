// What to say when a plan does not fit the device: which tensors are large, and which batch would fit.
#pragma once

#include <string>

#include "nixie/core/graph/plan.h"

namespace nixie {

/// The first size of the largest tensor in the arena: in a training step, the batch. 0 without an arena.
std::int64_t batch_of(const Plan& plan);

/// The largest batch below the plan's whose arena fits `free_bytes`, found by planning memory again; 0 when none does.
/// Scratch memory is taken to grow with the batch.
std::int64_t largest_batch(const Plan& plan, std::int64_t scratch_bytes, std::int64_t free_bytes);

/// One line: what the step needs of the backend's memory, what is free, its three largest tensors, the largest batch
/// that fits.
std::string memory_report(const std::string& backend, const Plan& plan, std::int64_t scratch_bytes,
                          std::int64_t free_bytes);

}  // namespace nixie
