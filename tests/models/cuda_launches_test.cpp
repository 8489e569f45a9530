// How many launches a training step takes, and what memory: small kernels share launches, and reductions are left by
// the programs that store what they reduce.
#ifdef NIXIE_WITH_CUDA

#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/layers/loss.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/optimizer.h"
#include "nixie/tests/cuda_plans_backend.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

// A step under a dynamic loss scale: a flag and an update for each parameter.
Plan step_of(const AnyModel& net, Backend& backend, std::int64_t batch, PrecisionPolicy policy) {
  const Shape input{batch, 3, 224, 224};
  const Model model(net, input, 0);
  const Optimizer optimizer(model.parameters(), {.rule = Sgd{.momentum = 0.9, .weight_decay = 1e-4},
                                                 .schedule = ConstantRate{},
                                                 .loss_scale = LossScaleOptions{.scale = 0}});
  Trace trace;
  Pass pass{.step = Tensor::make(Input{.name = "step"}, {}, {}, Dtype::i32)};
  const Tensor images = Tensor::make(Input{.name = "images"}, {}, input, Dtype::f32);
  const Tensor labels = Tensor::make(Input{.name = "labels"}, {}, {input[0]}, Dtype::i32);
  const Tensor loss = CrossEntropy{}(model(images, pass), labels);
  optimizer.update(gradients(optimizer.scaled(loss), model.parameters().trainable()));
  return make_plan(apply_precision(simplify({.outputs = {loss}, .sets = trace.sets()}), policy), backend);
}

struct Launches {
  std::size_t convolutions = 0, others = 0, shared = 0;
};

Launches launches_of(const Plan& plan) {
  Launches count;
  for (const Group& group : plan.groups) {
    bool head = false;
    for (int k : group.members) head |= plan.kernels[static_cast<std::size_t>(k)].head.has_value();
    ++(head ? count.convolutions : count.others);
    if (!head) count.shared += group.members.size() - 1;
  }
  return count;
}

// ResNet-18 has 62 parameters and 40 running statistics.
TEST(CudaLaunches, SmallKernelsOfAStepShareThem) {
  CudaPlansBackend backend("sm_90a");
  const Plan plan = step_of(Resnet<18>{}, backend, 32, PrecisionPolicy::fp16);
  const Launches count = launches_of(plan);
  EXPECT_GE(count.shared, 2u * 62);
  EXPECT_LE(count.others, 90u);  // 222 kernels
}

// Operands of f32 products are split by the normalisation that makes them, or by one kernel: DenseNet-121's 120
// convolutions, whose 360 products read 297 splits, took 1,280 launches when each split was two kernels.
TEST(CudaLaunches, SplitsAreStagesOfTheirMakers) {
  struct Row {
    AnyModel net;
    std::size_t most;
  };
  CudaPlansBackend backend("sm_90a");
  for (const auto& [net, most] : {Row{Resnet<18>{}, 165}, Row{Densenet121{}, 880}})
    EXPECT_LE(step_of(net, backend, 3, PrecisionPolicy::fp32).groups.size(), most);
}

// How much of a slot a group reads or writes: what one access of its kernels covers, or all of it if none does.
double bytes_of(const Plan& plan, const Group& group, int slot) {
  const Slot& whole = plan.slots[static_cast<std::size_t>(slot)];
  std::int64_t elements = 0;
  for (int k : group.members) {
    const Kernel& kernel = plan.kernels[static_cast<std::size_t>(k)];
    for (const auto* accesses : {&kernel.loads, &kernel.stores})
      for (const Access& access : *accesses) {
        std::int64_t covered = access.slot == slot;
        for (std::size_t axis = 0; axis < access.strides.size(); ++axis)
          if (access.strides[axis] != 0) covered *= kernel.domain[static_cast<int>(axis)];
        elements = std::max(elements, covered);
      }
    if (kernel.head)
      for (const Operand& operand : kernel.head->operands)
        if (operand.slot == slot) elements = std::max(elements, operand.shape.size());
  }
  const auto bytes = static_cast<double>(whole.size_bytes());
  return elements == 0 ? bytes : std::min(bytes, static_cast<double>(elements) * size_of(whole.dtype));
}

// Programs that leave parts, groups, and what these read and write in all.
struct Sizes {
  const char* name;
  AnyModel net;
  PrecisionPolicy policy;
  std::ptrdiff_t leave;
  std::size_t groups;
  double gigabytes;
};

TEST(CudaLaunches, NetsReadWhatTheyReduceNoMoreThanThis) {
  using enum PrecisionPolicy;
  const Sizes table[] = {
      {"resnet50", Resnet<50>{}, fp16, 74, 310, 19.5},           {"resnet50", Resnet<50>{}, fp32, 0, 425, 39.3},
      {"mobilenet_v2", MobilenetV2{}, fp16, 43, 290, 9.8},       {"mobilenet_v2", MobilenetV2{}, fp32, 3, 345, 21.1},
      {"densenet121", Densenet121{}, fp16, 60, 655, 21.1},       {"googlenet_bn", GooglenetBn{}, fp16, 58, 340, 7.1},
      {"regnet_y_400mf", Regnet400<true>{}, fp16, 55, 475, 6.9}, {"vgg_a", Vgg<11>{}, fp16, 0, 63, 6.9},
  };
  CudaPlansBackend backend("sm_90a");
  for (const Sizes& of : table) {
    const Plan plan = step_of(of.net, backend, 64, of.policy);
    double bytes = 0;
    for (const Group& group : plan.groups)
      for (const auto* slots : {&group.reads, &group.writes})
        for (int slot : *slots) bytes += bytes_of(plan, group, slot);
    const auto leave =
        std::ranges::count_if(plan.slots, [](const Slot& slot) { return slot.name.starts_with("parts of "); });
    const std::string name = fmt::format("{} {}", of.name, to_string(of.policy));
    EXPECT_GE(leave, of.leave) << name;
    EXPECT_LE(plan.groups.size(), of.groups) << name;
    EXPECT_LE(bytes * 1e-9, of.gigabytes) << name;
  }
}

}  // namespace
}  // namespace nixie
#endif
