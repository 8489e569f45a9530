// Dropout: masks are functions of seed, step and name, and the gradient has the same one.
#include "nixie/layers/dropout.h"

#include "nixie/tests/layers/layer_check.h"

namespace nixie {
namespace {

std::vector<float> dropped(double rate, int step, std::uint64_t seed, const char* name = "drop") {
  Parameters parameters;
  const Forward forward = Sequential{{name, Dropout{.rate = rate}}}.build({100, 100}, parameters);
  Pass pass{.step = step, .seed = seed};
  return evaluate(forward(ones({100, 100}), pass), test_backend()).to_vector<float>();
}

TEST(Layers, DropoutIsAFunctionOfSeedStepAndName) {
  const std::vector<float> y = dropped(0.25, 1, 2);
  EXPECT_EQ(y, dropped(0.25, 1, 2));
  EXPECT_NE(y, dropped(0.25, 2, 2));
  EXPECT_NE(y, dropped(0.25, 1, 3));
  EXPECT_NE(y, dropped(0.25, 1, 2, "other"));
  double kept = 0;
  for (float value : y) {
    ASSERT_TRUE(value == 0 || value == 1 / 0.75f) << value;
    kept += value != 0;
  }
  EXPECT_NEAR(kept / 10000, 0.75, 4 * std::sqrt(0.75 * 0.25 / 10000));  // four standard deviations
}

TEST(Layers, DropoutReadsAStepCounterThatMoves) {
  Parameters parameters;
  const Forward forward = Sequential{{"drop", Dropout{.rate = 0.25}}}.build({100, 100}, parameters);
  const Variable counter = parameters.state("counter", {}, {}, Dtype::i32);
  Step step(test_backend(), [&](const Inputs&) {
    Pass pass{.step = counter, .seed = 2};
    const Tensor y = forward(ones({100, 100}), pass);
    counter.set(counter + 1);
    return Outputs{{"y", y}};
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step({}).at("y").to_vector<float>(), dropped(0.25, i, 2));
}

TEST(Layers, DropoutsGradientHasTheSameMask) {
  Parameters parameters;
  const Forward forward = Dropout{}.build({50}, parameters);
  Pass pass;
  const Tensor x = reference::to_f32(reference::draw({50}, 1, 1, 2));
  const Tensor y = forward(x, pass);
  const std::vector<Tensor> both = evaluate({y, gradients(sum(y), {x})[0] * x}, test_backend());
  EXPECT_EQ(both[0].to_vector<float>(), both[1].to_vector<float>());
}

}  // namespace
}  // namespace nixie
