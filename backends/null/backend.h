// The null backend: plans of any size without memory or work, to read and to count kernels.
#pragma once

#include <functional>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// Compiling hands the plan to `see` (may be empty); running does nothing. Buffers have a size but no memory, and
/// downloads give zeros.
std::shared_ptr<Backend> make_null_backend(std::function<void(const Plan&)> see = {});

}  // namespace nixie
