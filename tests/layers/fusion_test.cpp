// Composites of layers and losses become few kernels, counted on the plan.
#include "nixie/tests/layers/layer_check.h"

namespace nixie {
namespace {

TEST(Fusion, CrossEntropyAndItsGradientAreTwoKernels) {
  Step step(test_backend(), [](const Inputs& in) {
    const Tensor loss = cross_entropy(in["logits"], in["labels"]);
    return Outputs{{"loss", loss}, {"grad", gradients(loss, {in["logits"]})[0]}};
  });
  const Plan& plan = step.plan({{"logits", Array(Dtype::f32, {64, 10})}, {"labels", Array(Dtype::i32, {64})}});
  EXPECT_LE(plan.kernels.size(), 2u) << to_string(plan);  // all over classes; the mean over samples
}

TEST(Fusion, BatchNormWithReluForwardsAndBackwardsInOneKernel) {
  Parameters parameters;
  const Forward forward = Sequential{BatchNorm{}, Relu{}}.build({4, 3, 8, 8}, parameters);
  Step step(test_backend(), [&](const Inputs& in) {
    Pass pass;
    const Tensor y = forward(in["x"], pass);
    Outputs outputs{{"y", y}};
    outputs["grad"] = gradients(sum(y * in["g"]), {in["x"]})[0];
    return outputs;
  });
  const Array image(Dtype::f32, {4, 3, 8, 8});
  const Plan& plan = step.plan({{"x", image}, {"g", image}});  // running statistics included
  EXPECT_EQ(plan.kernels.size(), 1u) << to_string(plan);
}

TEST(Fusion, ConvolutionTakesItsBiasAndRelu) {
  Parameters parameters;
  const Forward forward = Sequential{Conv2d{.out = 4}, Relu{}}.build({2, 3, 8, 8}, parameters);
  Step step(test_backend(), [&](const Inputs& in) {
    Pass pass;
    return Outputs{{"y", forward(in["x"], pass)}};
  });
  const Plan& plan = step.plan({{"x", Array(Dtype::f32, {2, 3, 8, 8})}});
  EXPECT_EQ(plan.kernels.size(), 1u) << to_string(plan);
}

TEST(Fusion, DropoutAndTheLayersAroundItAreOneKernel) {
  Parameters parameters;
  const Forward forward = Sequential{Tanh{}, Dropout{}, Relu{.slope = 0.1}}.build({64, 32}, parameters);
  Step step(test_backend(), [&](const Inputs& in) {
    Pass pass{.step = in["step"]};
    return Outputs{{"y", forward(in["x"], pass)}};
  });
  const Plan& plan = step.plan({{"x", Array(Dtype::f32, {64, 32})}, {"step", Array(Dtype::i32, {})}});
  EXPECT_EQ(plan.kernels.size(), 1u) << to_string(plan);
}

}  // namespace
}  // namespace nixie
