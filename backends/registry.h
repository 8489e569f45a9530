// Backends by name.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"

namespace nixie {

/// "cpu" or "null". Throws Fault::usage with the names there are on any other.
std::shared_ptr<Backend> make_backend(const std::string& name);

}  // namespace nixie
