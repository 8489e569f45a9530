// Formats by layer and operand: which rule a layer follows, what it computes, random roundings, what is refused.

#include <gtest/gtest.h>

#include "nixie/core/ops/formats.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/layers/activation.h"
#include "nixie/layers/conv.h"
#include "nixie/layers/linear.h"
#include "nixie/models/model.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

const Sequential kNet{{"first", Linear{.out = 6, .bias = false}}, Relu{}, {"head", Linear{.out = 3, .bias = false}}};

Tensor samples() { return uniform({4, 5}, 9) * 3 - 1; }

std::vector<float> result(const Model& model, Pass pass = {.training = false}) {
  return evaluate(model(samples(), pass), test_backend()).to_vector<float>();
}
std::vector<float> values(const Tensor& x) { return evaluate(x, test_backend()).to_vector<float>(); }

TEST(FormatRule, TheFirstRuleThatHoldsALayerCounts) {
  const Model plain(kNet, {4, 5}, 7);
  const Model model = plain.with_formats({{.layers = "head", .weights = "int4", .scale = "channel"},
                                          {.weights = "e4m3", .activations = "e2m1", .scale = "none"}});
  const Variable first = *plain.parameters().find("first.weight"), head = *plain.parameters().find("head.weight");
  const Tensor hidden = relu(
      matmul(quantized(samples(), format_named("e2m1")), quantized(first, format_named("e4m3")), {.trans_b = true}));
  const Tensor by_hand =
      matmul(hidden, scaled_quantized(head, format_named("int4"), {.group = ScaleGroup::channel, .axis = 0}),
             {.trans_b = true});
  EXPECT_EQ(result(model), values(by_hand));
  EXPECT_NE(result(model), result(plain));
  EXPECT_EQ(result(plain.with_formats({})), result(plain));
}

// In training random numbers are drawn for each step, operand and layer; an evaluation rounds to nearest.
TEST(FormatRule, StochasticInTrainingAlone) {
  const Model plain(kNet, {4, 5}, 7);
  const FormatRule rule{.weights = "e2m1", .activations = "e2m1"};
  FormatRule stochastic = rule;
  stochastic.rounding = "stochastic";
  const Model nearest = plain.with_formats({rule}), drawn = plain.with_formats({stochastic});
  EXPECT_EQ(result(nearest), result(drawn));
  const Pass first{.step = 1, .seed = 2}, second{.step = 2, .seed = 2}, other{.step = 1, .seed = 3};
  EXPECT_EQ(result(drawn, first), result(drawn, first));
  EXPECT_NE(result(drawn, first), result(drawn, second));
  EXPECT_NE(result(drawn, first), result(drawn, other));
}

TEST(FormatRule, EveryScaleOfConvolutionsTrains) {
  const Sequential net{Conv2d{.out = 4, .kernel = {3}, .pad = {1}}, Conv2d{.out = 2, .kernel = {3}}};
  for (const char* scale : {"none", "tensor", "channel", "block"}) {
    const Model model = Model(net, {2, 3, 6, 5}, 1)
                            .with_formats({{.weights = "e4m3",
                                            .activations = "e4m3",
                                            .gradients = "e5m2",
                                            .rounding = "stochastic",
                                            .scale = scale,
                                            .block = 2}});
    Step step(test_backend(), [&](const Inputs& in) {
      Pass pass;
      const std::vector<Gradient> slopes = gradients(mean(square(model(in["x"], pass))), model.parameters());
      Outputs outputs;
      for (const Gradient& slope : slopes) outputs[slope.parameter.name()] = slope.value;
      return outputs;
    });
    const Outputs found = step({{"x", evaluate(uniform({2, 3, 6, 5}, 4), test_backend())}});
    for (const auto& [name, slope] : found) {
      float most = 0;
      for (const float each : slope.to_vector<float>()) most = std::max(most, std::abs(each));
      EXPECT_TRUE(most > 0 && most < 100) << scale << " " << name << " " << most;
    }
  }
}

TEST(FormatRule, Refusals) {
  const Model model(kNet, {4, 5});
  const std::pair<FormatRule, const char*> rows[] = {
      {{.layers = "tail", .weights = "e4m3"}, "formats.0: \"tail\" holds no layer with a product; these are first, head"},
      {{.weights = "e4"}, "format is \"e4\", expected one of"},
      {{.weights = "e4m3", .rounding = "up"}, "rounding is up"},
      {{.weights = "e4m3", .scale = "row"}, "scale is row"},
      {{.weights = "e4m3", .block = 0}, "block is 0"},
  };
  for (const auto& [rule, text] : rows) {
    const std::string line = error_of([&] { model.with_formats({rule}); });
    EXPECT_NE(line.find(text), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace nixie
