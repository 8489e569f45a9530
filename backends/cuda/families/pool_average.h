// Average pooling of channels-last images: which kernels of a plan pool_average.cuh runs.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

const Family& pool_average();

}  // namespace nixie::cuda
