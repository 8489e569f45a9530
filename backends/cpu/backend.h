// The CPU backend: the reference that runs any plan, on all cores.
#pragma once

#include "nixie/core/graph/backend.h"

namespace nixie {

/// `threads`: 0 takes all the machine has. Results have the same bits for any number.
std::shared_ptr<Backend> make_cpu_backend(int threads = 0);

}  // namespace nixie
