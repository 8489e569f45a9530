// Precision: in which type a step stores its values and multiplies its products; and the pass that sees to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace nixie {

struct Graph;

enum class PrecisionPolicy : std::uint8_t {
  ieee,      ///< f32 throughout, every product by multiply-add
  fp32,      ///< f32 throughout; products in any way that errs no more than multiply-add on values of like size
  tf32,      ///< products may round operands to 10-bit mantissas and add in float; else as fp32
  fp16,      ///< half storage and products; f32 Variables with half shadows
  bf16,      ///< the same with bfloat16
  fp16_pure  ///< fp16, and the model's Variables are f16 themselves (parameter_dtype)
};

std::string_view to_string(PrecisionPolicy precision);
std::vector<std::string> precision_names();
/// The policy of that name; throws with the names there are on any other word.
PrecisionPolicy precision_named(std::string_view name);

/// The type a model's parameters are made in: f16 under fp16_pure, f32 else.
Dtype parameter_dtype(PrecisionPolicy precision);

/// The same graph under a policy. Only f32 values change; whatever is f64, half or an integer already stays. Under fp32
/// and tf32 that is only a mark on products (Math): what a backend makes of it, it says itself.
///
/// Under fp16 and bf16, convolutions and matrix products multiply halves and add in float, and what lies between them
/// (activations and their gradients) is stored in halves. These stay f32: Variables, gradients of parameters and
/// whatever goes into a new value of a Variable, results of reductions, and all between the last product and an output
/// of the step (the loss); a sum over samples that is not one number, as a bias's gradient is, ends what an output
/// keeps. A Variable that a product reads is read through its shadow, a half copy that the step's update writes beside
/// it. Arithmetic is done in float throughout.
Graph apply_precision(const Graph& graph, PrecisionPolicy precision);

}  // namespace nixie
