// The machine of a run: its processor, and a line with backend, number of threads and instruction set.
#pragma once

#include <string>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// `Intel(R) Xeon(R) Processor`, or `unknown processor`.
std::string processor_name();

/// `backend cpu, 2 threads, built for x86-64 with AVX-512`
std::string machine_text(const Backend& backend, int threads);

}  // namespace nixie
