// The list of backends.
#include "backends/registry.h"

#include "backends/cpu/backend.h"
#include "backends/null/backend.h"

namespace nixie {

std::shared_ptr<Backend> make_backend(const std::string& name) {
  if (name == "cpu") return make_cpu_backend();
  if (name == "null") return make_null_backend();
  fail(Fault::usage, "backend \"", name, "\" is unknown, expected cpu or null");
}

}  // namespace nixie
