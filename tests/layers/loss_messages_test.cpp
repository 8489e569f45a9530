// The texts of losses: what does not fit, the range of targets, and a loss as a configuration says it.
#include "nixie/layers/loss.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

TEST(Losses, StateTheRangeOfTheirTargets) {
  const std::string probability = "a number from 0 to 1", any = "a number from -inf up";
  const std::pair<AnyLoss, std::string> kRows[] = {
      {BinaryCrossEntropy{}, probability},
      {CrossEntropy{}, probability},
      {KlDivergence{}, probability},
      {Dice{}, probability},
      {Hinge{}, "a number from -1 to 1"},
      {MeanSquared{}, any},
      {LossSum{{{MeanSquared{}}, {Dice{}}, {SquaredHinge{}}}}, probability},
  };
  for (const auto& [loss, range] : kRows) EXPECT_EQ(text_of(loss.target_range()), range) << loss.text();
}

TEST(Losses, SayWhatDoesNotFit) {
  const Tensor x = zeros({4, 3}), labels = zeros({4}, Dtype::i32);
  const AnyLoss one = CrossEntropy{.ignore_index = 1}, other = Focal{.ignore_index = 2};
  const auto sum = [](const AnyLoss& a, const AnyLoss& b) { return LossSum{{{a}, {b}}}; };
  const std::string same = ": the losses of a sum ignore the same label; change ignore_index";
  const struct {
    AnyLoss loss;
    Tensor output, target;
    std::string message;
  } kRows[] = {
      {CrossEntropy{}, x, zeros({4, 1}, Dtype::i32),
       "cross_entropy: labels are i32 [4, 1] for an output of [4, 3], expected integers [4]"},
      {CrossEntropy{}, x, zeros({4}),
       "cross_entropy: labels are f32 [4] for an output of [4, 3], expected integers [4]; for targets that are "
       "numbers set another loss, for example mean_squared"},
      {CrossEntropy{}, zeros({4}), labels, "cross_entropy: output is [4], expected [N, classes, ...]"},
      {CrossEntropy{2}, x, labels, "cross_entropy: label_smoothing is 2, expected a number from 0 to 1"},
      {MeanSquared{}, x, zeros({3, 4}),
       "mean_squared: target is f32 [3, 4], output is [4, 3], expected the output's shape or integer labels [4]"},
      {LossSum{}, x, x, "loss_sum: has no losses"},
      {sum(one, Focal{}), x, labels, "loss_sum: cross_entropy ignores 1, focal ignores none" + same},
      {sum(Focal{}, one), x, labels, "loss_sum: focal ignores none, cross_entropy ignores 1" + same},
      {sum(one, other), x, labels, "loss_sum: cross_entropy ignores 1, focal ignores 2" + same},
      {sum(one, MeanSquared{}), x, labels, "loss_sum: cross_entropy ignores 1, mean_squared ignores none" + same},
  };
  for (const auto& [loss, output, target, message] : kRows) EXPECT_EQ(error_of([&] { loss(output, target); }), message);
  EXPECT_EQ(error_of([&] { AnyLoss(MeanSquared{})(x, x, ones({3})); }), "mean_squared: weights are [3], expected [4]");
}

TEST(Losses, PrintAsAConfigurationWouldSay) {
  EXPECT_EQ(AnyLoss().text(), "cross_entropy: {label_smoothing: 0, class_weights: [], ignore_index: null}");
  EXPECT_EQ(AnyLoss(LossSum{{{MeanSquared{}, 0.5}}}).text(),
            "loss_sum: {losses: [{loss: {mean_squared: {}}, weight: 0.5}]}");
}

}  // namespace
}  // namespace nixie
