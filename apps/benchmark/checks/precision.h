// The properties of a precision: the types of data and operands, and the error bounds of results.
#pragma once

#include <string>

#include "nixie/apps/benchmark/checks/rounding.h"
#include "nixie/core/step.h"

namespace nixie::benchmark {

struct PrecisionTraits {
  std::string name;  ///< `fp16`
  PrecisionPolicy policy;
  std::string nervana_dtype;  ///< `float16`
  Dtype data;                 ///< storage type of random data, output gradients and gradients
  Dtype operands;             ///< type of the operands of products
  double element_bound;       ///< largest max|diff| / mean|ref| of single elements: nervanagpu's, if it has one
  Rounding rounding;          ///< of sums of products
};

/// Throws a usage Error for an unknown name (core/passes/precision.h).
PrecisionTraits precision_named(const std::string& name);

}  // namespace nixie::benchmark
