// A net whose convolutions of halves run in Winograd's tiles learns as it does without: the plans that CUDA would run
// so, on the CPU.
#ifdef NIXIE_WITH_CUDA

#include "nixie/tests/test.h"

#include "nixie/backends/cpu/backend.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/core/base/random.h"
#include "nixie/core/graph/forwarding_backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/layers/loss.h"
#include "nixie/models/model.h"
#include "nixie/models/registry.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {
namespace {

/// The CPU; convolutions that can be are made in tiles of 2x2.
class InTiles final : public ForwardingBackend {
 public:
  InTiles() : ForwardingBackend(make_cpu_backend(2)) {}
  Target target() const override { return {.channels_last = true}; }
  void lower(Plan& plan) override {
    for (const Kernel& kernel : plan.kernels) convolutions_ += is_convolution(kernel);
    cuda::lower_to_winograd(plan, cuda::chip_named("sm_90a"), true);
    for (const Kernel& kernel : plan.kernels) direct_ += is_convolution(kernel);
  }

  int convolutions() const { return convolutions_; }
  int direct() const { return direct_; }

 private:
  static bool is_convolution(const Kernel& kernel) {
    return kernel.head && std::holds_alternative<Conv>(kernel.head->op);
  }
  int convolutions_ = 0, direct_ = 0;
};

constexpr int kSteps = 200, kMeanOf = 20;
const Shape kImages{16, 16, 10, 10};

/// Means of 20 losses of a net that learns to tell brighter images of noise from darker ones.
std::vector<double> losses(Backend& backend, PrecisionPolicy policy) {
  const Sequential layers{Conv2d{.out = 16, .kernel = 3, .pad = 1},
                          Relu{},
                          Conv2d{.out = 32, .kernel = 3, .pad = 1},
                          Relu{},
                          MaxPool2d{},
                          Conv2d{.out = 32, .kernel = 3, .pad = 1},
                          Relu{},
                          Flatten{},
                          Linear{.out = 2}};
  const Model model(layers, kImages, 1);
  const Optimizer optimizer(model.parameters(),
                            {.rule = Sgd{.momentum = 0.9, .weight_decay = 5e-4},
                             .schedule = ConstantRate{.rate = 0.003},
                             .loss_scale = {.scale = policy == PrecisionPolicy::fp16 ? 1024.0 : 1}});
  Step step(
      backend,
      [&](const Inputs& in) {
        const Tensor bright = cast(uniform({kImages[0]}, 7, in["step"]) < 0.5, Dtype::i32);
        const Tensor images =
            uniform(kImages, 8, in["step"]) - 0.5 + 0.05 * cast(reshape(bright, {kImages[0], 1, 1, 1}), Dtype::f32);
        Pass pass;
        const Tensor loss = CrossEntropy{}(model(images, pass), bright);
        optimizer.update(gradients(optimizer.scaled(loss), model.parameters()));
        return Outputs{{"loss", loss}};
      },
      policy);
  std::vector<double> means;
  for (int i = 0; i < kSteps; ++i) {
    if (i % kMeanOf == 0) means.push_back(0);
    means.back() += step({{"step", Array::from<std::int32_t>({i}, {})}}).at("loss").item() / kMeanOf;
  }
  return means;
}

TEST(WinogradTraining, InHalvesFollowsFloats) {
  const auto cpu = make_cpu_backend(2);
  InTiles tiles;
  const std::vector<double> floats = losses(*cpu, PrecisionPolicy::fp32), halves = losses(*cpu, PrecisionPolicy::fp16),
                            tiled = losses(tiles, PrecisionPolicy::fp16);
  EXPECT_EQ(tiles.convolutions(), 3 + 2 + 3) << "three layers; the images have no gradient";
  EXPECT_EQ(tiles.direct(), 0);
  EXPECT_LT(floats.back(), 0.05 * floats.front()) << "it learns";
  for (std::size_t i = 0; i < floats.size(); ++i) {
    EXPECT_NEAR(halves[i], floats[i], 0.01) << i;
    EXPECT_NEAR(tiled[i], floats[i], 0.01) << i;
  }
}

}  // namespace
}  // namespace nixie
#endif
