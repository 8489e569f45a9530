// The portable families: templates that run any kernel of their kind on every chip.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

const Family& reduce();
const Family& gemm();
const Family& scan();
const Family& argsort();
const Family& map();

}  // namespace nixie::cuda
