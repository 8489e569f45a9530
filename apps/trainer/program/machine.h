// The machine of a run in one line: backend, number of threads, instruction set.
#pragma once

#include <string>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// `backend cpu, 2 threads, built for x86-64 with AVX-512`
std::string machine_text(const Backend& backend, int threads);

}  // namespace nixie
