// The limits of a backend, measured: its fastest matrix product and its fastest copy.
#pragma once

#include "nixie/apps/benchmark/checks/precision.h"

namespace nixie::benchmark {

/// TFLOP/s of a large square product in this precision, measured now; the best of a few sizes.
double measure_matmul_ceiling(Backend& backend, const PrecisionTraits& precision);

/// GB/s of copying a large array, bytes read and bytes written.
double measure_copy_rate(Backend& backend);

}  // namespace nixie::benchmark
