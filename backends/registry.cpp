// The list of backends.
#include "nixie/backends/registry.h"

#include <cstdlib>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/null/backend.h"
#include "nixie/backends/validate.h"
#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cuda/backend.h"
#endif

namespace nixie {
#ifndef NIXIE_WITH_CUDA
namespace {
std::shared_ptr<Backend> make_cuda_backend() {
  fail(Fault::device,
       "cuda: this program was built without CUDA: install the CUDA Toolkit and build again, or use backend: cpu");
}
}  // namespace
#endif

namespace {

// Held against the CPU kernel by kernel where NIXIE_VALIDATE=1 asks for it.
std::shared_ptr<Backend> make_device_backend() {
  std::shared_ptr<Backend> device = make_cuda_backend();
  const char* validate = std::getenv("NIXIE_VALIDATE");
  if (!validate || std::string_view(validate) != "1") return device;
  return make_validating_backend(std::move(device), make_cpu_backend());
}

}  // namespace

std::shared_ptr<Backend> make_backend(const std::string& name) {
  if (name == "cpu") return make_cpu_backend();
  if (name == "null") return make_null_backend();
  if (name == "cuda") return make_device_backend();
  if (name == "auto") {
    try {
      return make_device_backend();
    } catch (const Error& error) {
      if (error.fault() != Fault::device) throw;
      return make_cpu_backend();
    }
  }
  fail(Fault::usage, "backend \"", name, "\" is unknown, expected auto, cpu, cuda or null");
}

}  // namespace nixie
