// Formats by layer and operand: which rule a layer follows, what it computes, random roundings, what is refused.
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

TEST(FormatRule, SumsOfALayersProducts) {
  const Model plain(kNet, {4, 5}, 7);
  const Model model =
      plain.with_formats({{.layers = "head", .weights = "e2m1", .scale = "none", .sums = {"e4m3", 16}}});
  const Variable first = *plain.parameters().find("first.weight"), head = *plain.parameters().find("head.weight");
  const Tensor hidden = relu(matmul(samples(), first, {.trans_b = true}));
  const Tensor by_hand = matmul(hidden, quantized(head, format_named("e2m1")),
                                {.trans_b = true, .sums = sums_in(format_named("e4m3"), 16)});
  EXPECT_EQ(result(model), values(by_hand));
  EXPECT_NE(result(model), result(plain));
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
  for (const char* scale : {"none", "tensor", "channel", "block", "history"}) {
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

// Two steps by hand: the first has no history, so its scale is 1; the second takes the first's largest numbers.
TEST(FormatRule, HistoryScalesByTheStepsBefore) {
  const Sequential net{{"fc", Linear{.out = 2, .bias = false}}};
  const Model model =
      Model(net, {1, 2}, 1)
          .with_formats({{.weights = "int4", .activations = "int4", .gradients = "int4", .scale = "history"}});
  model.parameters().find("fc.weight")->set(Array::from(std::vector<float>{1, 0, 0, 1}, {2, 2}));
  Step step(test_backend(), [&](const Inputs& in) {
    Pass pass{.step = in["step"]};
    const Tensor y = model(in["x"], pass);
    return Outputs{{"y", y}, {"dw", gradients(sum(y * in["slope"]), model.parameters())[0].value}};
  });
  const auto run = [&](int now, const std::vector<float>& x, const std::vector<float>& slope) {
    return step({{"x", Array::from(x, {1, 2})}, {"slope", Array::from(slope, {1, 2})}, {"step", now}});
  };
  using Values = std::vector<float>;
  Outputs first = run(0, {28, 3.4F}, {0.4F, 2});
  EXPECT_EQ(first["y"].to_vector<float>(), (Values{7, 3}));          // int4 ends at 7
  EXPECT_EQ(first["dw"].to_vector<float>(), (Values{0, 0, 14, 6}));  // slopes 0 and 2
  Outputs second = run(1, {20, 3.4F}, {0.4F, 4});
  EXPECT_EQ(second["y"].to_vector<float>(), (Values{20, 4}));  // scale 4 of 28
  // Slopes by the scale 1/2 of 2: 0.5 and 7 / 2; x by 4: 20 and 4.
  EXPECT_EQ(second["dw"].to_vector<float>(), (Values{10, 2, 70, 14}));
  const std::vector<float> history = model.parameters().find("formats.fc.activations.0")->array().to_vector<float>();
  EXPECT_EQ(history[0], 28);
  EXPECT_EQ(history[1], 20);
  // An evaluation takes the history and leaves it.
  const Tensor other = model(Array::from(Values{20, 3.4F}, {1, 2}), *std::make_unique<Pass>(Pass{.training = false}));
  EXPECT_EQ(values(other), (Values{20, 4}));
  EXPECT_EQ(model.parameters().find("formats.fc.activations.0")->array().to_vector<float>(), history);
}

TEST(FormatRule, Refusals) {
  const Model model(kNet, {4, 5});
  const std::pair<FormatRule, const char*> rows[] = {
      {{.layers = "tail", .weights = "e4m3"},
       "formats.0: \"tail\" holds no layer with a product; these are first, head"},
      {{.weights = "e4"}, "formats.0: format is \"e4\", expected one of"},
      {{.weights = "e4m3", .rounding = "up"}, "rounding is up"},
      {{.weights = "e4m3", .scale = "row"}, "scale is row"},
      {{.weights = "e4m3", .block = 0}, "block is 0"},
      {{.sums = {.format = "e4", .every = 16}}, "formats.0: format is \"e4\", expected one of"},
      {{.sums = {.format = "f16", .every = 48}}, "formats.0: sums: every is 48, expected 16, 32 or 64"},
  };
  for (const auto& [rule, text] : rows) {
    EXPECT_FAULT(usage, text, model.with_formats({rule}));
  }
}

}  // namespace
}  // namespace nixie
