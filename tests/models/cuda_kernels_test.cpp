// The kernels of whole training steps compile without a GPU: every distinct kernel of the nets, forward, backward and
// update, for each architecture, without spills to speak of.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <set>

#include "backends/cuda/codegen.h"
#include "backends/cuda/jit.h"
#include "backends/cuda/lowering.h"
#include "backends/cuda/matmul.h"
#include "core/autograd.h"
#include "core/step.h"
#include "layers/loss.h"
#include "models/registry.h"
#include "optimizers/optimizer.h"

namespace nixie {
namespace {

// Plans as the CUDA backend does, and runs nothing.
class PlanOnly final : public Backend {
 public:
  std::string name() const override { return "plan only"; }
  Target target() const override { return {.channels_last = true}; }
  void lower(Plan& plan) override { cuda::lower(plan); }
  std::shared_ptr<Buffer> allocate(std::int64_t) override { fail(Fault::memory, "this backend has no memory"); }
  void upload(const void*, Buffer&, std::int64_t) override {}
  void download(Buffer&, void*, std::int64_t) override {}
  std::unique_ptr<Executable> compile(const Plan&) override { return nullptr; }
};

Plan training_plan(const AnyModel& net, const Shape& input) {
  PlanOnly backend;
  const Model model(net, input);
  const Optimizer optimizer(model.parameters(),
                            {.rule = Sgd{.momentum = 0.9, .weight_decay = 1e-4}, .schedule = ConstantRate{}});
  Step step(backend, [&](const Inputs& in) {
    Pass pass{.step = in["step"]};
    const Tensor loss = CrossEntropy{}(model(in["images"], pass), in["labels"]);
    optimizer.update(gradients(loss, model.parameters().trainable()));
    return Outputs{{"loss", loss}};
  });
  return step.plan({{"images", Array(Dtype::f32, input)},
                    {"labels", Array(Dtype::i32, Shape{input[0]})},
                    {"step", Array(Dtype::i32, Shape{})}});
}

void expect_compiles(const AnyModel& net, const Shape& input, const std::string& architecture) {
  const Plan plan = training_plan(net, input);
  std::set<std::string> distinct;
  std::map<std::string, std::string> label;
  for (const Kernel& kernel : plan.kernels) {
    if (cuda::as_blas(plan, kernel)) continue;
    const std::string source = cuda::generate(plan, kernel).source;
    distinct.insert(source);
    label[source] = kernel.label;
  }
  EXPECT_FALSE(distinct.empty());
  const std::vector<std::string> sources(distinct.begin(), distinct.end());
  const std::vector<cuda::Cubin> cubins = cuda::compile_sources(sources, architecture);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    EXPECT_FALSE(cubins[i].code.empty());
    // Two blocks of a large product share a multiprocessor at 128 registers a thread; a few words may wait in memory.
    EXPECT_LE(cuda::resource_use(cubins[i].log).spilled_bytes, 64) << label[sources[i]] << "\n" << cubins[i].log;
  }
}

const Shape kImages{64, 3, 224, 224};

TEST(CudaModelKernels, SmallNets) {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"}) {
    expect_compiles(Mlp{}, {64, 1, 28, 28}, architecture);
    expect_compiles(Lenet{}, {64, 1, 28, 28}, architecture);
  }
}
TEST(CudaModelKernels, Alexnet) { expect_compiles(Alexnet{}, kImages, "sm_90a"); }
TEST(CudaModelKernels, Resnet18) { expect_compiles(Resnet<18>{}, kImages, "sm_90a"); }

TEST(CudaModelKernels, LongEveryNetOnEveryArchitecture) {
  for (const char* architecture : {"sm_80", "sm_90a", "sm_100"})
    AllModels::for_each([&]<class Choice>() {
      if constexpr (!std::is_same_v<Choice, Mlp> && !std::is_same_v<Choice, Lenet>)
        expect_compiles(Choice{}, std::is_same_v<Choice, Overfeat> ? Shape{64, 3, 231, 231} : kImages, architecture);
    });
}

}  // namespace
}  // namespace nixie
#endif
