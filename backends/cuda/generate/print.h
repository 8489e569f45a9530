// Prints scalar code as CUDA C++.
#pragma once

#include <string>

#include "nixie/core/graph/instruction.h"

namespace nixie::cuda {

/// "f32": the name of a type in kernels/common/types.cuh.
std::string type_name(Dtype dtype);
/// A number as an exact literal of a compute type (f32, f64, i32); infinities and NaN included.
std::string literal(double value, Dtype type);
/// The right-hand side of an arithmetic instruction; registers are r0, r1, ...
std::string expression(const Instruction& instruction);

}  // namespace nixie::cuda
