// The list of backends.
#include "backends/registry.h"

#include "backends/cpu/backend.h"
#include "backends/null/backend.h"
#ifdef NIXIE_WITH_CUDA
#include "backends/cuda/backend.h"
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

std::shared_ptr<Backend> make_backend(const std::string& name) {
  if (name == "cpu") return make_cpu_backend();
  if (name == "null") return make_null_backend();
  if (name == "cuda") return make_cuda_backend();
  if (name == "auto") {
    try {
      return make_cuda_backend();
    } catch (const Error& error) {
      if (error.fault() != Fault::device) throw;
      return make_cpu_backend();
    }
  }
  fail(Fault::usage, "backend \"", name, "\" is unknown, expected auto, cpu, cuda or null");
}

}  // namespace nixie
