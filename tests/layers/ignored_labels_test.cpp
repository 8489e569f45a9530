// Losses over positions of which some have a label that is ignored, against plain loops in doubles.
#include "nixie/layers/loss.h"
#include "nixie/tests/layers/layer_check.h"

namespace nixie {
namespace {

constexpr std::int64_t kSamples = 3, kClasses = 3, kPositions = 5;
constexpr std::int32_t kIgnored = 255;
// The last sample has one position that counts.
const std::vector<std::int32_t> kLabels{0,        2,        kIgnored, 1, 1,        2,        2,       0,
                                        kIgnored, kIgnored, kIgnored, 1, kIgnored, kIgnored, kIgnored};

std::size_t at(std::int64_t sample, std::int64_t k, std::int64_t position) {
  return static_cast<std::size_t>((sample * kClasses + k) * kPositions + position);
}

/// 1 - the overlap, a sample weighing as much as it has positions that count times its weight.
double dice(const std::vector<double>& x, const std::vector<double>& weights) {
  double total = 0, all = 0;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    double counted = 0, losses = 0;
    for (std::int64_t k = 0; k < kClasses; ++k) {
      double both = 0, sums = 0;
      counted = 0;
      for (std::int64_t i = 0; i < kPositions; ++i) {
        const std::int32_t label = kLabels[static_cast<std::size_t>(n * kPositions + i)];
        if (label == kIgnored) continue;
        double powers = 0;
        for (std::int64_t other = 0; other < kClasses; ++other) powers += std::exp(x[at(n, other, i)]);
        const double p = std::exp(x[at(n, k, i)]) / powers, t = label == k;
        both += p * t;
        sums += p + t;
        ++counted;
      }
      losses += 1 - (2 * both + 1) / (sums + 1);
    }
    total += losses / kClasses * counted * weights[static_cast<std::size_t>(n)];
    all += counted * weights[static_cast<std::size_t>(n)];
  }
  return total / all;
}

TEST(Losses, OfDiceLeaveIgnoredPositionsOut) {
  std::vector<double> x;
  for (int i = 0; i < kSamples * kClasses * kPositions; ++i) x.push_back(std::sin(1.7 * i));
  const Tensor labels = Array::from(kLabels, {kSamples, kPositions});
  const Dice loss{.ignore_index = kIgnored};
  for (const std::vector<double>& weights : {std::vector<double>{1, 1, 1}, {1, 0, 1}, {0.5, 2, 1}}) {
    const Tensor in = Array::from(x, {kSamples, kClasses, kPositions}), of_samples = Array::from(weights, {kSamples});
    const Tensor y = loss(in, labels, of_samples);
    const std::vector<Tensor> found = evaluate({y, gradients(y, {in})[0]}, test_backend());
    EXPECT_NEAR(found[0].item(), dice(x, weights), 1e-12);
    const std::vector<double> slopes = found[1].to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::vector<double> more = x, less = x;
      more[i] += 1e-5;
      less[i] -= 1e-5;
      EXPECT_NEAR(slopes[i], (dice(more, weights) - dice(less, weights)) / 2e-5, 1e-9) << i;
    }
  }
  const Tensor in = Array::from(x, {kSamples, kClasses, kPositions});
  EXPECT_NEAR(evaluate(loss(in, labels), test_backend()).item(), dice(x, {1, 1, 1}), 1e-12) << "without weights";
}

}  // namespace
}  // namespace nixie
