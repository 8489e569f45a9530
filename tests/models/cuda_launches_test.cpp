// How many launches a training step takes, and what memory: small kernels share launches.
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
  for (const auto& [net, most] : {Row{Resnet<18>{}, 165}, Row{Densenet121{}, 870}})
    EXPECT_LE(step_of(net, backend, 3, PrecisionPolicy::fp32).groups.size(), most);
}

}  // namespace
}  // namespace nixie
#endif
