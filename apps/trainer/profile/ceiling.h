// The measured limits of a backend: its fastest matrix product and its fastest copy.
#pragma once

#include "nixie/core/step.h"

namespace nixie {

/// TFLOP/s of a large square product in this precision, measured now; the best of a few sizes.
double measure_matmul_ceiling(Backend& backend, PrecisionPolicy precision, Dtype operands);

/// GB/s of copying a large array, bytes read and bytes written.
double measure_copy_rate(Backend& backend);

}  // namespace nixie
