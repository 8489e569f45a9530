// Copies of matrices of bytes that exchange rows and columns, by turn_bytes.cuh.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

const Family& turn_bytes();

}  // namespace nixie::cuda
