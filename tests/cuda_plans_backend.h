// CUDA without a GPU: plans are lowered and their kernels compiled as on an H200, and the lowered plans run on the CPU.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include <vector>

#include "backends/cpu/backend.h"
#include "backends/cuda/codegen.h"
#include "backends/cuda/jit.h"
#include "backends/cuda/lowering.h"
#include "backends/cuda/matmul.h"

namespace nixie {

class CudaPlansBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  Target target() const override { return {.channels_last = true}; }
  void lower(Plan& plan) override { cuda::lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return cpu_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override { cpu_->upload(from, to, size_bytes); }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override { cpu_->download(from, to, size_bytes); }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    std::vector<std::string> sources;
    for (const Kernel& kernel : plan.kernels)
      if (!cuda::as_blas(plan, kernel)) sources.push_back(cuda::generate(plan, kernel).source);
    cuda::compile_sources(sources, "sm_90a");
    return cpu_->compile(plan);
  }

 private:
  std::shared_ptr<Backend> cpu_ = make_cpu_backend(2);
};

}  // namespace nixie
#endif
