// Operands of timed work, made when a step first runs: compiling it makes none.
#pragma once

#include <functional>
#include <string>

#include "nixie/core/state/variable.h"

namespace nixie {

/// A Variable outside any optimizer, with the memory layout of weights and activations.
Variable operand(const std::string& name, Dtype dtype, const Shape& shape, std::function<Array()> values);
/// One whose values are a few thousand random numbers in [-1, 1) over and over: more would take longer to draw and
/// convert than to compute with.
Variable noise_operand(const std::string& name, Dtype dtype, const Shape& shape);
/// One that a step only writes: zeros.
Variable result_operand(const std::string& name, Dtype dtype, const Shape& shape);

}  // namespace nixie
