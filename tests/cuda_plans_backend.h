// CUDA without a GPU: plans are lowered and their programs compiled as for a device; members of groups run on the CPU.
#pragma once

#ifdef NIXIE_WITH_CUDA
#include <map>
#include <string>
#include <vector>

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/compile/jit.h"
#include "nixie/backends/cuda/families/blas.h"
#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie {

class CudaPlansBackend final : public ForwardingBackend {
 public:
  explicit CudaPlansBackend(const std::string& architecture = "sm_90a")
      : ForwardingBackend(make_cpu_backend(2)), chip_(cuda::chip_named(architecture)) {}
  Target target() const override {
    Target target = cuda::target_of(chip_);
    target.replays_members = true;
    return target;
  }
  void lower(Plan& plan) override { cuda::lower(plan, chip_); }
  std::unique_ptr<Executable> compile(const Plan& plan) override {
    std::vector<std::string> texts;
    for (const auto& [text, label] : sources(plan)) texts.push_back(text);
    cuda::compile_sources(texts, chip_.architecture);
    return inner()->compile(plan);
  }

  /// The distinct programs of a lowered plan, and the label of one of their groups.
  std::map<std::string, std::string> sources(const Plan& plan) const {
    std::map<std::string, std::string> found;
    for (const Group& group : plan.groups)
      if (!cuda::blas_problem(group)) found.emplace(cuda::generate(plan, group, chip_).source, label_of(plan, group));
    return found;
  }
  const cuda::Chip& chip() const { return chip_; }

 private:
  cuda::Chip chip_;
};

}  // namespace nixie
#endif
