// Backends by name.
#pragma once

#include <memory>
#include <string>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// "cpu", "cuda" (device 0), "auto" (cuda where it can run, else cpu) or "null". Throws Fault::usage with the names
/// there are on any other, Fault::device with cause and remedy where cuda cannot run.
std::shared_ptr<Backend> make_backend(const std::string& name);

}  // namespace nixie
