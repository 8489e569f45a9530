// Small-K products bound by their epilogue, by outer_product.cuh.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

const Family& outer_product();

}  // namespace nixie::cuda
