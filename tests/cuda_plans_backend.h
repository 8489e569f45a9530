// CUDA without a GPU: plans are lowered and their kernels compiled as for a device, and the lowered plans run on the
// CPU.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include <map>
#include <string>
#include <vector>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/matmul.h"
#include "nixie/backends/cuda/generate/codegen.h"
#include "nixie/backends/cuda/rewrite/lowering.h"

namespace nixie {

class CudaPlansBackend final : public Backend {
 public:
  /// `joins`: kernels that only CUDA can run are made too; plans are then for looking at.
  explicit CudaPlansBackend(std::string architecture = "sm_90a", bool joins = false)
      : architecture_(std::move(architecture)), joins_(joins) {}
  std::string name() const override { return "cpu"; }
  Target target() const override { return {.channels_last = true, .overlaps = true}; }
  void lower(Plan& plan) override { cuda::lower(plan, is_hopper(), joins_); }
  std::shared_ptr<Buffer> allocate(std::int64_t size_bytes) override { return cpu_->allocate(size_bytes); }
  void upload(const void* from, Buffer& to, std::int64_t size_bytes) override { cpu_->upload(from, to, size_bytes); }
  void download(Buffer& from, void* to, std::int64_t size_bytes) override { cpu_->download(from, to, size_bytes); }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    std::vector<std::string> texts;
    for (const auto& [text, label] : sources(plan)) texts.push_back(text);
    cuda::compile_sources(texts, architecture_);
    return cpu_->compile(plan);
  }

  /// The distinct programs of a lowered plan, and the label of one of their kernels.
  std::map<std::string, std::string> sources(const Plan& plan) const {
    std::map<std::string, std::string> found;
    for (const Kernel& kernel : plan.kernels)
      if (!cuda::as_blas(plan, kernel)) found.emplace(cuda::generate(plan, kernel, is_hopper()).source, kernel.label);
    return found;
  }

 private:
  bool is_hopper() const { return architecture_ == "sm_90a"; }

  std::string architecture_;
  bool joins_;
  std::shared_ptr<Backend> cpu_ = make_cpu_backend(2);
};

}  // namespace nixie
#endif
