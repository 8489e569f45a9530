// PrecisionPolicy: the types in which a step stores values and computes products.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nixie/core/base/dtype.h"

namespace nixie {

enum class PrecisionPolicy : std::uint8_t {
  ieee,       ///< f32 throughout, every product by multiply-adds
  fp32,       ///< f32 throughout; products by any algorithm as accurate as multiply-adds
  tf32,       ///< products may round operands to 10-bit mantissas and add in float; else as fp32
  fp16,       ///< half storage and products; f32 Variables with half shadows
  bf16,       ///< the same with bfloat16
  fp16_pure,  ///< fp16, and the model's Variables are f16 themselves (parameter_dtype)
  bf16_pure   ///< the same of bf16
};

std::string_view to_string(PrecisionPolicy precision);
std::vector<std::string> precision_names();
/// The policy of that name; throws for an unknown name and lists the known ones.
PrecisionPolicy precision_named(std::string_view name);

/// The policy of Steps, models and loss scales that are made without one: fp32 until it is set. Set it at the start of
/// a program.
PrecisionPolicy default_precision();
void set_default_precision(PrecisionPolicy precision);

/// The type of a model's parameters: a half under fp16_pure and bf16_pure, otherwise f32.
Dtype parameter_dtype(PrecisionPolicy precision);

}  // namespace nixie
