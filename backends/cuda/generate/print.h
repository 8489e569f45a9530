// Prints scalar code as CUDA C++.
#pragma once

#include <string>

#include "nixie/core/graph/instruction.h"

namespace nixie::cuda {

/// "f32": the name kernels/types.cuh gives a type.
std::string type_name(Dtype dtype);
/// A number as a literal of a computing type (f32, f64, i32), exactly; infinities and NaN included.
std::string literal(double value, Dtype type);
/// The right-hand side of an arithmetic instruction; registers are r0, r1, ...
std::string expression(const Instruction& instruction);

}  // namespace nixie::cuda
