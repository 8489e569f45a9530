// Copies of matrices that exchange rows and columns, by turn.cuh.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

const Family& turn();

}  // namespace nixie::cuda
