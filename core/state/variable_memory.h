// Memory for the values of Variables.
#pragma once

#include <memory>
#include <string>

#include "nixie/core/base/error.h"
#include "nixie/core/graph/backend.h"

namespace nixie {

struct VariableState;

/// Out of memory for a Variable (Fault::memory); the message already names it.
class NoMemoryForVariable final : public Error {
 public:
  explicit NoMemoryForVariable(std::string line) : Error(Fault::memory, std::move(line)) {}
};

/// The memory of a Variable's value on a backend; the storage is that of stored() or stored_for_change(). Throws
/// NoMemoryForVariable, as these do.
std::shared_ptr<Buffer> memory_of(const VariableState& variable, Storage& storage, Backend& backend);

}  // namespace nixie
