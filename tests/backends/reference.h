// A plan interpreted one position at a time in plain doubles: what the backends' tests compare with.
#pragma once

#include <cstddef>
#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie::testing {

/// Runs a plan whose kernels have no heads. `slots` holds each slot's bytes.
void run_reference(const Plan& plan, std::vector<std::vector<std::byte>>& slots);

/// An element of a slot's bytes as a double, and back.
double element(const std::vector<std::byte>& bytes, Dtype dtype, std::int64_t index);
void set_element(std::vector<std::byte>& bytes, Dtype dtype, std::int64_t index, double value);

}  // namespace nixie::testing
