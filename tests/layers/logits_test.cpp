// Losses that apply softmax or sigmoid themselves refuse an output that has been through one.
#include "nixie/layers/loss.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

TEST(Logits, ResultsOfSoftmaxAndSigmoidAreRecognised) {
  const Tensor x = ones({2, 3, 4});
  const std::vector<std::pair<Tensor, std::string>> cases = {
      {softmax(x, {1}), "softmax"},
      {sigmoid(x), "sigmoid"},
      {reshape(softmax(x, {1}), {2, 12}), "softmax"},
      {permute(sigmoid(x), {0, 2, 1}), "sigmoid"},
      {cast(sigmoid(cast(x, Dtype::f16)), Dtype::f32), "sigmoid"},
      {x, ""},
      {log_softmax(x, {1}), ""},
      {exp(x) / sum(x, {1}), ""},
      {2 * sigmoid(x), ""},
      {tanh(x), ""},
  };
  for (const auto& [value, expected] : cases) EXPECT_EQ(squashed_by(value), expected);
}

TEST(Logits, LossesRefuseThem) {
  const Tensor x = ones({2, 3}), labels = cast(zeros({2}), Dtype::i32), mask = zeros({2, 3});
  const auto message = [](const std::string& loss, const std::string& found, const std::string& function) {
    return fmt::format("{}: the output is a {}'s, but the loss takes logits and applies {} itself; remove the {}", loss,
                       found, function, found);
  };
  for (const AnyLoss& loss : {AnyLoss(CrossEntropy{}), AnyLoss(Focal{}), AnyLoss(Dice{}), AnyLoss(KlDivergence{})})
    for (const char* found : {"softmax", "sigmoid"}) {
      const Tensor output = found[1] == 'o' ? softmax(x, {1}) : sigmoid(x);
      EXPECT_EQ(error_of([&] { loss(output, labels); }), message(loss.kind(), found, "softmax"));
      EXPECT_EQ(loss.output_function(), "softmax");
    }
  EXPECT_EQ(error_of([&] { BinaryCrossEntropy{}(sigmoid(x), mask); }),
            "the output is a sigmoid's, but the loss takes logits and applies sigmoid itself; remove the sigmoid");
  EXPECT_EQ(AnyLoss(LossSum{{{MeanSquared{}, 1}, {Dice{}, 1}}}).output_function(), "softmax");
  MeanSquared{}(sigmoid(x), mask);  // takes any numbers
}

}  // namespace
}  // namespace nixie
