// The precisions that can be asked for, by name, with what they mean for operands, data and bounds.
#pragma once

#include <string>
#include <vector>

#include "core/step.h"

namespace nixie::benchmark {

struct PrecisionTraits {
  std::string name;           ///< `fp16`
  std::string nervana_dtype;  ///< `float16`
  Dtype data;                 ///< what random data, output gradients and gradients are stored in
  Dtype operands;             ///< what products multiply
  double element_bound;       ///< largest max|diff| / mean|ref| of single elements: nervanagpu's, where it has one
};

std::vector<std::string> precision_names();
/// Throws a usage Error for an unknown name, and for one that this build cannot run.
PrecisionTraits precision_named(const std::string& name);

}  // namespace nixie::benchmark
