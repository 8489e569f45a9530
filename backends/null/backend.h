// The null backend: compiles plans of any size without memory or work, to print them and count kernels.
#pragma once

#include <functional>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// How another backend plans.
struct Planning {
  std::string name = "null";
  Target target = {};
  std::function<void(Plan&)> lower = {};  ///< empty: kernels stay as they are
};

/// Compiling passes the plan to `see` (may be empty); running does nothing. Buffers have a size but no memory, and
/// downloads return zeros.
std::shared_ptr<Backend> make_null_backend(std::function<void(const Plan&)> see = {}, Planning as = {});

}  // namespace nixie
