// Backends by name.
#pragma once

#include <memory>
#include <string>

#include "nixie/core/graph/backend.h"

namespace nixie {

/// "cpu", "cuda" (device 0), "auto" (cuda if it can run, else cpu) or "null". Throws Fault::usage with the known names
/// for any other, Fault::device with cause and remedy if cuda cannot run.
std::shared_ptr<Backend> make_backend(const std::string& name);

}  // namespace nixie
