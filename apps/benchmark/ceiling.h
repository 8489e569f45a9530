// The fastest matrix product of a backend: what a net's speed is a percentage of.
#pragma once

#include "apps/benchmark/precision.h"

namespace nixie::benchmark {

/// TFLOP/s of a large square product in this precision, measured now; the best of a few sizes.
double measure_matmul_ceiling(Backend& backend, const PrecisionTraits& precision);

}  // namespace nixie::benchmark
