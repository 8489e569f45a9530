// compile_ahead: compiles what is timed one after the other later, all at once.
#pragma once

#include <cstdint>
#include <functional>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// Calls `compile` for every index in [0, count) in parallel; the backend's cache of compiled kernels has them all
/// afterwards. Does nothing on the CPU, which compiles no kernels. A kernel that fails here fails again where it is
/// timed. A stop request ends it.
void compile_ahead(const Backend& backend, std::int64_t count, const std::function<void(std::int64_t)>& compile);

}  // namespace nixie
