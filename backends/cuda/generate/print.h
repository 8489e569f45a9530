// Prints scalar code as CUDA C++.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "nixie/core/base/shape.h"
#include "nixie/core/graph/instruction.h"

namespace nixie::cuda {

/// "f32": the name of a type in kernels/common/types.cuh.
std::string type_name(Dtype dtype);
/// A number as an exact literal of a compute type (f32, f64, i32); infinities and NaN included.
std::string literal(double value, Dtype type);
/// The right-hand side of an arithmetic instruction; registers are r0, r1, ...
std::string expression(const Instruction& instruction);
/// The same of an f32 div within 2 units in the last place.
std::string approximate_quotient(const Instruction& instruction);

/// A constant of a struct.
template <class T>
std::string constant(const std::string& name, T value, const std::string& type = "int") {
  return fmt::format("  static constexpr {} {} = {};\n", type, name, value);
}

/// A constant per axis, as Body::name(axis): device code may not index constant arrays.
template <class Values>
std::string per_axis(const std::string& name, const Values& values, const std::string& type = "int") {
  std::string text = fmt::format("  static constexpr {} {}(int axis) {{\n    return ", type, name);
  int axis = 0;
  for (std::int64_t value : values) text += fmt::format("axis == {} ? {} : ", axis++, value);
  return text + "0;\n  }\n";
}

/// A shape's sizes from an axis on.
inline std::vector<std::int64_t> tail(const Shape& shape, int from) {
  return {shape.sizes().begin() + from, shape.sizes().end()};
}

}  // namespace nixie::cuda
