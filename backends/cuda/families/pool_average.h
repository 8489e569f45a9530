// Average pooling of channels-last images, by pool_average.cuh.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

const Family& pool_average();

}  // namespace nixie::cuda
