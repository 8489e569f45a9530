// The list of backends.
#include "nixie/backends/registry.h"

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/null/backend.h"
#include "nixie/backends/validate.h"
#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cuda/backend.h"
#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/settings/environment.h"
#endif

namespace nixie {
#ifndef NIXIE_WITH_CUDA
namespace {
[[noreturn]] void fail_without_cuda() {
  fail(Fault::device,
       "cuda: this program was built without CUDA: run ./dev setup cuda in nixie's source tree and build again, or use "
       "backend: cpu");
}
std::shared_ptr<Backend> make_cuda_backend() { fail_without_cuda(); }
}  // namespace
#endif

namespace {

std::shared_ptr<Backend> make_checked_backend(const std::string& name, int threads) {
  std::shared_ptr<Backend> device = name == "cuda" ? make_cuda_backend() : make_cpu_backend(threads);
  return is_validated() ? make_validating_backend(std::move(device), make_cpu_backend(threads)) : device;
}

}  // namespace

std::shared_ptr<Backend> make_backend(const std::string& name, int threads) {
  if (name == "null") return make_null_backend();
  if (name == "cpu" || name == "cuda") return make_checked_backend(name, threads);
  if (name == "auto") {
    try {
      return make_checked_backend("cuda", threads);
    } catch (const Error& error) {  // built without it, or no GPU: "cuda" in its place would say which
      if (error.fault() != Fault::device) throw;
      return make_checked_backend("cpu", threads);
    }
  }
  fail(Fault::usage, "backend \"", name, "\" is unknown, expected auto, cpu, cuda or null");
}

std::string kernel_prices() {
#ifdef NIXIE_WITH_CUDA
  return cuda::price_list();
#else
  fail_without_cuda();
#endif
}

}  // namespace nixie
