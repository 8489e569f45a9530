// Losses where numbers are huge, tiny or doubles: values and gradients keep their digits.
#include "nixie/layers/loss.h"
#include "nixie/tests/layers/layer_check.h"

namespace nixie {
namespace {

TEST(Losses, StayFiniteForLargeLogits) {
  const Tensor x = Array::from(std::vector<float>{1e4f, -1e4f, 0, 500, -500, 3}, {2, 3});
  const Tensor labels = Array::from(std::vector<std::int32_t>{1, 0}, {2});
  const std::vector<Tensor> found =
      evaluate({cross_entropy(x, labels), binary_cross_entropy(x, labels)}, test_backend());
  EXPECT_NEAR(found[0].item(), 1e4, 1e-2);  // (2e4 + 0) / 2
  EXPECT_NEAR(found[1].item(), (2e4 + std::log(2.0) + std::log1p(std::exp(3.0))) / 6, 1e-2);
}

// A sum or a square on the way would be infinite in f32, and what is infinite times a slope of 0 NaN.
TEST(Losses, HaveGradientsForHugeValues) {
  constexpr double kHuge = 3e38;
  const struct {
    AnyLoss loss;
    std::vector<double> output, target;
    double value;
    std::vector<double> gradient;
  } cases[] = {
      {SmoothL1{}, {kHuge, 0}, {0, 0.5}, kHuge / 2, {0.5, -0.25}},
      {SmoothL1{.beta = 0.5}, {kHuge, 1}, {-kHuge, 1}, INFINITY, {0.5, 0}},
      {Huber{}, {0, 0}, {kHuge, 0.5}, kHuge / 2, {-0.5, -0.25}},
      {Huber{.delta = 0.25}, {INFINITY, 0}, {0, 0.125}, INFINITY, {0.125, -0.0625}},
      {Huber{.delta = 1e30}, {2e19, 0}, {0, 0}, 1e38, {1e19, 0}},
      {CrossEntropy{.label_smoothing = 0.5}, {kHuge, kHuge}, {0}, std::log(2.0), {-0.25, 0.25}},
      {CrossEntropy{}, {1e7, 1e7}, {0}, std::log(2.0), {-0.5, 0.5}},
      {CrossEntropy{}, {1e8, 1e8}, {1}, std::log(2.0), {0.5, -0.5}},
      {Focal{}, {1e8, 1e8}, {0}, std::log(2.0) / 4, {-0.25 * std::log(2.0) - 0.125, 0.25 * std::log(2.0) + 0.125}},
      {KlDivergence{}, {0, -INFINITY}, {1, 0}, 0, {0, 0}},
      {CrossEntropy{.label_smoothing = 0.5}, {0, 0, kHuge}, {2}, kHuge / 3, {1.0 / 6 - 1.0 / 3, -1.0 / 6, 1.0 / 3}},
      {Focal{}, {-kHuge, kHuge}, {0}, INFINITY, {-1, 1}},
      {Focal{}, {-kHuge, kHuge}, {1}, 0, {0, 0}},
      {Focal{.gamma = 0.5}, {0, kHuge}, {0}, kHuge, {-1, 1}},
      // and for distances far below the bend
      {Huber{}, {1e-6, 0}, {0, 1e-6}, 0.5e-12, {0.5e-6, -0.5e-6}},
      {Huber{.delta = 1e6}, {1e-3, 0}, {0, 1e-3}, 0.5e-6, {0.5e-3, -0.5e-3}},
      {SmoothL1{.beta = 1e8}, {0.1, 0}, {0, 0.1}, 0.5e-10, {0.5e-9, -0.5e-9}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.loss.text());
    const Shape shape{1, static_cast<std::int64_t>(c.output.size())};
    const Tensor x = Array::from(c.output, shape).to(Dtype::f32);
    const Array target =
        c.target.size() == 1 ? Array::from(c.target, {1}).to(Dtype::i32) : Array::from(c.target, shape).to(Dtype::f32);
    const Tensor loss = c.loss(x, target);
    const std::vector<Tensor> found = evaluate({loss, gradients(loss, {x})[0]}, test_backend());
    if (std::isfinite(c.value)) {
      EXPECT_NEAR(found[0].item(), c.value, 1e-6 * c.value);
    }
    EXPECT_EQ(std::isfinite(found[0].item()), std::isfinite(c.value));  // sums of infinities are NaN on CUDA
    const std::vector<double> slope = found[1].to_vector<double>();
    for (std::size_t i = 0; i < slope.size(); ++i)
      EXPECT_NEAR(slope[i], c.gradient[i], 2e-6 * std::abs(c.gradient[i])) << i;
  }
}

// Targets of doubles are not rounded to f32 on the way: there is no divergence from themselves.
TEST(Losses, OfDoublesHaveTheirDigits) {
  const Tensor target = Array::from(std::vector<double>{1.0 / 3, 2.0 / 3}, {1, 2});
  EXPECT_LT(std::abs(evaluate(KlDivergence{}(log(target), target), test_backend()).item()), 1e-15);
  // With p = t each class has 1 - 2 t^2 / 2 t = 1 - t.
  EXPECT_NEAR(evaluate(Dice{.smooth = 0}(log(target), target), test_backend()).item(), 0.5, 1e-15);
  const Tensor logits = Array::from(std::vector<double>{0.3, -0.2, 1.1}, {1, 3}),
               label = Array::from(std::vector<std::int32_t>{1}, {1});
  const auto value = [&](const CrossEntropy& loss) { return evaluate(loss(logits, label), test_backend()).item(); };
  const double plain = std::log(std::exp(0.3) + std::exp(-0.2) + std::exp(1.1)) + 0.2;
  EXPECT_NEAR(value({.label_smoothing = 0.1}), plain + 0.1 * (-0.2 - 0.4), 1e-14);  // the mean of the logits is 0.4
  EXPECT_NEAR(value({.class_weights = {1, 0.1, 1}}), plain, 1e-14);
  // 0.9 of the label's term and a thirtieth of each, with their weights, over that of the label
  const double terms = 0.1 * plain + (plain - 0.2 - 0.3) + (plain - 0.2 - 1.1);
  EXPECT_NEAR(value({.label_smoothing = 0.1, .class_weights = {1, 0.1, 1}}), 0.9 * plain + terms / 3, 1e-14);
}

}  // namespace
}  // namespace nixie
