// The CPU backend: the reference that runs any plan, on all cores.
#pragma once

#include "nixie/core/graph/backend.h"

namespace nixie {

/// `threads`: 0 = all cores. Results are bitwise equal for any number.
std::shared_ptr<Backend> make_cpu_backend(int threads = 0);

}  // namespace nixie
