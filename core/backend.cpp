// The default backend of a program.
#include "core/backend.h"

namespace nixie {
namespace {

std::shared_ptr<Backend>& chosen() {
  static std::shared_ptr<Backend> backend;
  return backend;
}

}  // namespace

Backend& default_backend() {
  check(chosen() != nullptr, "no default backend: call set_default_backend(make_backend(\"cpu\")) first");
  return *chosen();
}

void set_default_backend(std::shared_ptr<Backend> backend) { chosen() = std::move(backend); }

}  // namespace nixie
