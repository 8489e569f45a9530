// The kernels of whole training steps compile without a GPU: forward, backward and update, under the precision policies
// and for each architecture, with few spills, and without ptxas giving up on registers or overlapping products.
#ifdef NIXIE_WITH_CUDA

#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/layers/conv.h"
#include "nixie/layers/loss.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/optimizer.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/cuda_programs.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

using Policies = std::vector<PrecisionPolicy>;
const Policies kAllPolicies{PrecisionPolicy::ieee, PrecisionPolicy::fp32, PrecisionPolicy::tf32,
                            PrecisionPolicy::fp16, PrecisionPolicy::bf16, PrecisionPolicy::fp16_pure};

Shape input_of(const AnyModel& net) {
  if (net.kind() == Mlp::name || net.kind() == Lenet::name) return {64, 1, 28, 28};
  return net.kind() == Overfeat::name ? Shape{64, 3, 231, 231} : Shape{64, 3, 224, 224};
}

// A training step whose images are of this type; bytes become x * scale + shift with a scale and a shift per channel.
Plan step_of(const AnyModel& net, PrecisionPolicy policy, Dtype stored, Backend& backend) {
  const Shape input = input_of(net);
  const Model model(net, input, 0, policy == PrecisionPolicy::fp16_pure ? Dtype::f16 : Dtype::f32);
  const Optimizer optimizer(model.parameters(),
                            {.rule = Sgd{.momentum = 0.9, .weight_decay = 1e-4}, .schedule = ConstantRate{}});
  Trace trace;
  Pass pass{.step = Tensor::make(Input{.name = "step"}, {}, {}, Dtype::i32)};
  Tensor images = Tensor::make(Input{.name = "images"}, {}, input, stored);
  const Tensor labels = Tensor::make(Input{.name = "labels"}, {}, {input[0]}, Dtype::i32);
  if (stored == Dtype::u8) {
    const Shape channels{1, input[1], 1, 1};
    images = cast(images, Dtype::f32) * Tensor::make(Input{.name = "scale"}, {}, channels, Dtype::f32) +
             Tensor::make(Input{.name = "shift"}, {}, channels, Dtype::f32);
  }
  const Tensor loss = CrossEntropy{}(model(images, pass), labels);
  optimizer.update(gradients(loss, model.parameters().trainable()));
  return make_plan(apply_precision(simplify({.outputs = {loss}, .sets = trace.sets()}), policy), backend);
}

// Filters with channels last: a thread's neighbours have four numbers of one call of the generator, which the kernel of
// the update would not have.
TEST(CudaModelKernels, StochasticUpdatesDrawFourNumbersAtATime) {
  CudaPlansBackend backend("sm_90a");
  const Shape input{32, 64, 28, 28};
  const Model model(Sequential{Conv2d{.out = 64, .kernel = {3}, .pad = {1}}}, input, 0, Dtype::bf16);
  const Optimizer optimizer(model.parameters(), {.rule = Sgd{.momentum = 0.9}, .groups = {{.rounding = "stochastic"}}});
  Trace trace;
  const Tensor images = Tensor::make(Input{.name = "images"}, {}, input, Dtype::f32);
  const Tensor loss = mean(square(model(images, {})));
  optimizer.update(gradients(loss, model.parameters().trainable()));
  const Plan plan = make_plan(
      apply_precision(simplify({.outputs = {loss}, .sets = trace.sets()}), PrecisionPolicy::bf16_pure), backend);
  int draws = 0;
  for (const auto& [source, label] : backend.sources(plan))
    if (source.find("uniform(static_cast<u64>") != std::string::npos) {
      ++draws;
      EXPECT_NE(source.find(" / 4 + lane / 4, lane % 4,"), std::string::npos) << label << source;
    }
  EXPECT_GE(draws, 1);
}

// Two blocks of a large product share a multiprocessor at 128 registers a thread; a few words may wait in memory.
constexpr int kSpilledBytes = 64;

void add_programs(CudaPrograms& programs, const AnyModel& net, const Policies& policies,
                  const std::string& architecture) {
  CudaPlansBackend backend(architecture);
  for (PrecisionPolicy policy : policies) {
    const Plan plan = step_of(net, policy, Dtype::f32, backend);
    for (const Group& group : plan.groups) {
      if (cuda::blas_problem(group)) continue;
      const cuda::KernelCode code = cuda::generate(plan, group, backend.chip());
      programs.add(code, fmt::format("{} {}", to_string(policy), code.variant),
                   fmt::format("{} {}: {}", net.kind(), to_string(policy), label_of(plan, group)), kSpilledBytes);
    }
  }
}

// The groups that read what a step is given as images.
std::vector<Group> image_readers(const Plan& plan) {
  const auto images =
      std::find_if(plan.slots.begin(), plan.slots.end(), [](const Slot& slot) { return slot.name == "images"; });
  std::vector<Group> found;
  for (const Group& group : plan.groups)
    if (std::count(group.reads.begin(), group.reads.end(), images - plan.slots.begin())) found.push_back(group);
  return found;
}

// Under the policies that compute in f32 bytes are read by the kernels that copy images for a layer, and by the search
// for a scale.
TEST(CudaModelKernels, CopiesOfImagesReadBytes) {
  CudaPlansBackend backend("sm_90a");
  for (const AnyModel& net : {AnyModel(Alexnet{}), AnyModel(Overfeat{}), AnyModel(Vgg<11>{})})
    for (const PrecisionPolicy policy : {PrecisionPolicy::ieee, PrecisionPolicy::fp32, PrecisionPolicy::tf32}) {
      SCOPED_TRACE(fmt::format("{} {}", net.kind(), to_string(policy)));
      const Plan plan = step_of(net, policy, Dtype::u8, backend);
      CudaPrograms programs;
      for (const Group& group : image_readers(plan)) {
        const Kernel& kernel = plan.kernels[static_cast<std::size_t>(group.members.front())];
        // VGG's filter gradient by multiply-adds is the portable kernel, which reads an element many times.
        const bool apart = net.kind() == Vgg<11>::name && policy == PrecisionPolicy::ieee;
        EXPECT_EQ(kernel.label.starts_with("cast"), apart) << kernel.label;
        programs.add(cuda::generate(plan, group, backend.chip()), "", kernel.label, kSpilledBytes);
      }
      programs.expect_compile("sm_90a");
    }
}

// Under 16-bit policies nothing but the first layer's forward pass and filter gradient reads images of bytes.
TEST(CudaModelKernels, FirstLayersReadBytes) {
  CudaPlansBackend backend("sm_90a");
  for (const AnyModel& net : {AnyModel(Alexnet{}), AnyModel(Overfeat{}), AnyModel(Vgg<11>{})})
    for (const PrecisionPolicy policy : {PrecisionPolicy::fp16, PrecisionPolicy::bf16, PrecisionPolicy::fp16_pure}) {
      SCOPED_TRACE(fmt::format("{} {}", net.kind(), to_string(policy)));
      const Plan plan = step_of(net, policy, Dtype::u8, backend);
      const std::vector<Group> readers = image_readers(plan);
      EXPECT_EQ(readers.size(), 2u);
      for (const Group& group : readers) {
        const std::string family = group.implementation->name();
        EXPECT_TRUE(family == "conv_s2d_sm90" || family == "conv_c3") << family;
      }
      CudaPrograms programs;
      for (const Group& group : plan.groups) {
        if (cuda::blas_problem(group)) continue;
        const cuda::KernelCode code = cuda::generate(plan, group, backend.chip());
        if (code.source.find("element(const Body") != std::string::npos)
          programs.add(code, "", label_of(plan, group), kSpilledBytes);
      }
      EXPECT_EQ(programs.size(), 2u);
      programs.expect_compile("sm_90a");
    }
}

// A 7x7 layer's rows are copied from bytes once, for the forward pass and the filter gradient.
TEST(CudaModelKernels, UnfoldedImagesReadBytes) {
  CudaPlansBackend backend("sm_90a");
  const Plan plan = step_of(AnyModel(Resnet<18>{}), PrecisionPolicy::fp16, Dtype::u8, backend);
  const std::vector<Group> readers = image_readers(plan);
  ASSERT_EQ(readers.size(), 1u);
  const Kernel& kernel = plan.kernels[static_cast<std::size_t>(readers[0].members.back())];
  EXPECT_EQ(kernel.label, "unfold");
  CudaPrograms programs;
  programs.add(cuda::generate(plan, readers[0], backend.chip()), "", kernel.label, kSpilledBytes);
  programs.expect_compile("sm_90a");
}

TEST(CudaModelKernels, Resnet18InHalvesForHopper) {
  CudaPrograms programs;
  add_programs(programs, Resnet<18>{}, {PrecisionPolicy::fp16}, "sm_90a");
  programs.expect_compile("sm_90a");
}

class CudaModelKernelsFor : public testing::TestWithParam<const char*> {};

// The longest of the programs of one template and tile under a policy; with --long all of every net.
TEST_P(CudaModelKernelsFor, EachTemplateAndTileUnderEveryPolicy) {
  CudaPrograms programs;
  for (const AnyModel& net : {AnyModel(Alexnet{}), AnyModel(Overfeat{}), AnyModel(Vgg<11>{}), AnyModel(Resnet<18>{}),
                              AnyModel(MobilenetV1{})})
    add_programs(programs, net, kAllPolicies, GetParam());
  programs.one_of_each_form().expect_compile(GetParam());
}

// sm_120 has the shared memory of sm_86 and sm_89, too; with --long all compile for these and for sm_100.
INSTANTIATE_TEST_SUITE_P(Architectures, CudaModelKernelsFor, testing::Values("sm_80", "sm_90a", "sm_120"),
                         [](const auto& architecture) { return architecture.param; });

TEST(CudaModelKernels, LongEveryNetUnderEveryPolicyOnEveryArchitecture) {
  for (const char* architecture : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"}) {
    CudaPrograms programs;
    AllModels::for_each([&]<class Net>() { add_programs(programs, Net{}, kAllPolicies, architecture); });
    programs.expect_compile(architecture);
  }
}

}  // namespace
}  // namespace nixie
#endif
