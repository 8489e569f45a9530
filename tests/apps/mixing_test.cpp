// Mixup and cutmix: what is drawn, and that images and losses are mixed as drawn.
#include "nixie/apps/trainer/mixing.h"

#include "nixie/backends/registry.h"
#include "nixie/core/step.h"
#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

TEST(Mixing, SharesFollowTheBetaDistribution) {
  for (const double a : {0.2, 1.0, 4.0}) {
    const Mixing mixing({.mixup = a}, 3);
    double mean = 0, square = 0;
    constexpr int kCount = 4000;
    for (int i = 0; i < kCount; ++i) {
      const std::vector<double> drawn = mixing.draw(i, 8, 8).to_vector<double>();
      EXPECT_EQ(drawn[0], drawn[5]);
      mean += drawn[0] / kCount;
      square += drawn[0] * drawn[0] / kCount;
    }
    const double variance = 1 / (4 * (2 * a + 1));
    EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(variance / kCount)) << a;
    EXPECT_NEAR(square - mean * mean, variance, 0.05 * variance + 0.003) << a;
  }
}

TEST(Mixing, CutmixsShareIsTheAreaLeft) {
  const Mixing mixing({.cutmix = 1, .probability = 0.5}, 4);
  int untouched = 0;
  for (int i = 0; i < 400; ++i) {
    const std::vector<double> d = mixing.draw(i, 10, 20).to_vector<double>();
    EXPECT_EQ(d, mixing.draw(i, 10, 20).to_vector<double>());
    EXPECT_EQ(d[0], 1);
    EXPECT_TRUE(0 <= d[1] && d[1] <= d[2] && d[2] <= 10 && 0 <= d[3] && d[3] <= d[4] && d[4] <= 20);
    EXPECT_NEAR(d[5], 1 - (d[2] - d[1]) * (d[4] - d[3]) / 200, 1e-6);
    untouched += d[5] == 1;
  }
  EXPECT_NEAR(untouched, 200, 60);
}

TEST(Mixing, ImagesAndLossesAreMixedAsDrawn) {
  set_default_backend(make_backend("cpu"));
  std::vector<float> pixels;
  for (int i = 0; i < 3 * 2 * 4 * 5; ++i) pixels.push_back(std::sin(static_cast<float>(i)));
  const Array images = Array::from(pixels, {3, 2, 4, 5});
  const Array drawn = Array::from(std::vector<float>{0.75f, 1, 3, 2, 5, 0.4f}, {6});
  const std::vector<float> found = evaluate(Mixing({}, 0).images(images, drawn)).to_vector<float>();
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t y = i / 5 % 4, x = i % 5, partner = (2 - i / 40) * 40 + i % 40;
    const float own = y >= 1 && y < 3 && x >= 2 ? 0 : 0.75f;
    EXPECT_NEAR(found[i], own * pixels[i] + (1 - own) * pixels[partner], 1e-6);
  }
  const Array output = Array::from(std::vector<float>{1, 2, 0, 1, 3, -1}, {3, 2});
  const Array labels = Array::from(std::vector<std::int32_t>{0, 1, 1}, {3}),
              reversed = Array::from(std::vector<std::int32_t>{1, 1, 0}, {3});
  const AnyLoss loss;
  const double expected = 0.4 * evaluate(loss(output, labels)).item() + 0.6 * evaluate(loss(output, reversed)).item();
  EXPECT_NEAR(evaluate(Mixing({}, 0).loss(loss, output, labels, drawn)).item(), expected, 1e-6);
}

}  // namespace
}  // namespace nixie
