// The machine of a run: backend, number of threads, instruction set.
#pragma once

#include <memory>
#include <string>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// "auto" takes a GPU where one can be used and the CPU otherwise. `threads` are the CPU's, 0 = all.
std::shared_ptr<Backend> open_backend(const std::string& name, int threads);
/// `backend cpu, 2 threads, built for x86-64 with AVX-512`
std::string machine_text(const Backend& backend, int threads);

}  // namespace nixie
