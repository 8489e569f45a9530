// The list of backends.
#include "nixie/backends/registry.h"

#include <algorithm>
#include <thread>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/null/backend.h"
#include "nixie/backends/settings/environment.h"
#include "nixie/backends/validate.h"
#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cuda/backend.h"
#include "nixie/backends/cuda/device/chip.h"
#include "nixie/backends/cuda/planner.h"
#endif

namespace nixie {
#ifndef NIXIE_WITH_CUDA
namespace {
[[noreturn]] void fail_without_cuda() {
  fail(Fault::device,
       "cuda: this program was built without CUDA: run ./dev setup cuda in nixie's source tree and build again, or use "
       "backend: cpu");
}
std::shared_ptr<Backend> make_cuda_backend(int) { fail_without_cuda(); }
int cuda_devices() { fail_without_cuda(); }
std::shared_ptr<Backend> make_cuda_planner(const std::string&) { fail_without_cuda(); }
std::string cuda_kernel_table(const Plan&, const std::string&) { fail_without_cuda(); }
}  // namespace
#endif

namespace {

// A launcher may show each rank its own GPU alone: that is device 0. NCCL refuses two ranks on one GPU.
std::shared_ptr<Backend> make_cuda_backend_for(const World& world) {
  return make_cuda_backend(world.is_alone() ? 0 : world.rank_on_host() % std::max(1, cuda_devices()));
}

std::shared_ptr<Backend> make_checked_backend(const std::string& name, int threads, const World& world) {
  std::shared_ptr<Backend> device = name == "cuda" ? make_cuda_backend_for(world) : make_cpu_backend(threads);
  return is_validated() ? make_validating_backend(std::move(device), make_cpu_backend(threads)) : device;
}

}  // namespace

int own_threads(int threads, const World& world) {
  if (threads != 0 || world.is_alone()) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / world.ranks_on_host());
}

std::shared_ptr<Backend> make_backend(const std::string& name, int asked_threads, const World& world) {
  const int threads = own_threads(asked_threads, world);
  if (name == "null") return make_null_backend();
  if (name == "cpu" || name == "cuda") return make_checked_backend(name, threads, world);
  if (name == "auto") {
    try {
      return make_checked_backend("cuda", threads, world);
    } catch (const Error& error) {  // built without it, or no GPU: "cuda" in its place would say which
      if (error.fault() != Fault::device) throw;
      return make_checked_backend("cpu", threads, world);
    }
  }
  fail(Fault::usage, "backend \"", name, "\" is unknown, expected auto, cpu, cuda or null");
}

std::shared_ptr<Backend> make_planner(const std::string& chip) { return make_cuda_planner(chip); }

std::string kernel_table(const Plan& plan, const std::string& chip) { return cuda_kernel_table(plan, chip); }

std::string kernel_prices() {
#ifdef NIXIE_WITH_CUDA
  return cuda::price_list();
#else
  fail_without_cuda();
#endif
}

}  // namespace nixie
