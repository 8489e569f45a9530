// Random operands made on the host, so that no kernel must be compiled for each of their shapes.
#pragma once

#include <string_view>

#include "nixie/core/base/array.h"

namespace nixie::benchmark {

/// Values in [-0.5, 0.5) of this type, the same for the same purpose.
Array host_noise(const Shape& shape, Dtype dtype, std::string_view purpose);

}  // namespace nixie::benchmark
