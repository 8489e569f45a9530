// Optimizer: groups, clipping, the counter and the state, through whole steps of a small net.
#include "nixie/optimizers/optimizer.h"

#include "nixie/core/step.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

// Two parameters whose gradients are given numbers.
struct Toy {
  Parameters parameters;
  Variable weight = parameters.make("fc.weight", {2, 2}, Init::constant(1));
  Variable bias = parameters.make("fc.bias", {2}, Init::constant(1));
  std::vector<double> grad_weight{3, -4, 0, 0}, grad_bias{12, 0};

  std::vector<Gradient> grads() const {
    return {{weight, Array::from(grad_weight, {2, 2}).to(Dtype::f32)},
            {bias, Array::from(grad_bias, {2}).to(Dtype::f32)}};
  }
  void train(const Optimizer& optimizer, int steps = 1) {
    Step step(test_backend(), [&](const Inputs&) {
      optimizer.update(grads());
      return Outputs{};
    });
    for (int i = 0; i < steps; ++i) step({});
  }
  std::vector<float> w() const { return weight.array().to_vector<float>(); }
  std::vector<float> b() const { return bias.array().to_vector<float>(); }
};

TEST(Optimizer, MovesAgainstTheGradient) {
  Toy toy;
  const Optimizer optimizer(toy.parameters, {.rule = Sgd{.momentum = 0}, .schedule = ConstantRate{.rate = 0.5}});
  toy.train(optimizer);
  EXPECT_EQ(toy.w(), (std::vector<float>{-0.5, 3, 1, 1}));
  EXPECT_EQ(toy.b(), (std::vector<float>{-5, 1}));
}

TEST(Optimizer, ReadsTheScheduleAtItsOwnCountOrAGivenStep) {
  Toy toy;
  const Optimizer optimizer(toy.parameters,
                            {.rule = Sgd{.momentum = 0}, .schedule = StepRate{.rate = 1, .factor = 0.5, .every = 2}});
  toy.train(optimizer, 3);  // rates 1, 1, 0.5
  EXPECT_EQ(toy.b(), (std::vector<float>{1 - 2.5f * 12, 1}));
  EXPECT_EQ(optimizer.state().find("shared.step")->array().item(), 3);
  Step step(test_backend(), [&](const Inputs& in) {
    optimizer.update(toy.grads(), in["step"]);
    return Outputs{};
  });
  step({{"step", Array::from(std::vector<std::int32_t>{7}, {})}});  // rate 0.125
  EXPECT_EQ(toy.b(), (std::vector<float>{1 - 2.625f * 12, 1}));
  EXPECT_EQ(optimizer.state().find("shared.step")->array().item(), 4);
}

TEST(Optimizer, AFactorScalesTheRate) {
  Toy toy;
  const Optimizer optimizer(toy.parameters, {.rule = Sgd{.momentum = 0}, .schedule = ConstantRate{.rate = 0.5}});
  Step step(test_backend(), [&](const Inputs& in) {
    optimizer.update(toy.grads(), 0, in["factor"]);
    return Outputs{};
  });
  step({{"factor", Array::from(std::vector<float>{0.25}, {})}});
  EXPECT_EQ(toy.b(), (std::vector<float>{1 - 0.125f * 12, 1}));
}

TEST(Optimizer, GroupsScaleRateAndWeightDecay) {
  Toy toy;
  const Optimizer optimizer(toy.parameters, {.rule = Sgd{.momentum = 0, .weight_decay = 0.5},
                                             .schedule = ConstantRate{.rate = 0.1},
                                             .groups = {{.max_rank = 1, .rate = 2, .weight_decay = 0}}});
  toy.train(optimizer);
  EXPECT_NEAR(toy.w()[0], 1 - 0.1 * (3 + 0.5), 1e-6);
  EXPECT_NEAR(toy.w()[2], 1 - 0.1 * 0.5, 1e-6);
  EXPECT_NEAR(toy.b()[0], 1 - 0.2 * 12, 1e-6);
  EXPECT_NEAR(toy.b()[1], 1, 1e-6);
}

TEST(Optimizer, TheFirstGroupThatHoldsAParameterCounts) {
  Toy toy;
  const Optimizer optimizer(toy.parameters, {.rule = Sgd{},
                                             .schedule = ConstantRate{.rate = 1},
                                             .groups = {{.match = "*.bias", .rate = 0}, {.match = "fc.*", .rate = 2}}});
  toy.train(optimizer);
  EXPECT_EQ(toy.w(), (std::vector<float>{-5, 9, 1, 1}));
  EXPECT_EQ(toy.b(), (std::vector<float>{1, 1}));
  EXPECT_FALSE(optimizer.state().find("fc.bias.momentum_buffer"));  // frozen
}

TEST(Optimizer, GroupsMayHaveTheirOwnRuleAndSchedule) {
  Toy toy;
  const Optimizer optimizer(
      toy.parameters,
      {.rule = Sgd{.momentum = 0},
       .schedule = ConstantRate{.rate = 0.1},
       .groups = {{.max_rank = 1, .rate = 2, .optimizer = Adam{}, .schedule = StepRate{.rate = 0.25, .every = 1}}}});
  toy.train(optimizer);
  EXPECT_NEAR(toy.w()[0], 1 - 0.1 * 3, 1e-6);
  EXPECT_NEAR(toy.b()[0], 1 - 2 * 0.25,
              1e-5);  // Adam's first step is the rate, but for its epsilon, whatever the gradient
  EXPECT_TRUE(optimizer.state().find("fc.bias.exp_avg"));
  EXPECT_FALSE(optimizer.state().find("fc.weight.exp_avg"));
  toy.train(optimizer);
  EXPECT_GT(toy.b()[0], 1 - 2 * 0.25 - 2 * 0.026);  // a tenth of the rate behind the first epoch
  EXPECT_LT(toy.b()[0], 1 - 2 * 0.25);
  EXPECT_THROW(Optimizer(toy.parameters, {.groups = {{.max_rank = 1, .schedule = PlateauRate{}}}}), Error);
}

TEST(Optimizer, PatternsMatchWholeNames) {
  const Variable v = Parameters().make("features.10.weight", {2, 2});
  auto holds = [&](const std::string& pattern) { return ParameterGroup{.match = pattern}.holds(v); };
  for (const char* pattern : {"*", "features.10.weight", "features.*", "*.weight", "f*.1*t", "**", "*10*"})
    EXPECT_TRUE(holds(pattern)) << pattern;
  for (const char* pattern : {"", "features", "weight", "*.bias", "features.1.*", "*weigh", "features.10.weight*x",
                              "f*weight*weight", "features.10.w*.weight"})
    EXPECT_FALSE(holds(pattern)) << pattern;
  // Trying every place of every part would take longer than the universe.
  const Variable long_name = Parameters().make(std::string(200, 'a'), {2, 2});
  std::string stars;
  for (int i = 0; i < 100; ++i) stars += "*a";
  EXPECT_TRUE(ParameterGroup{.match = stars}.holds(long_name));
  EXPECT_FALSE(ParameterGroup{.match = stars + "b"}.holds(long_name));
}

TEST(Optimizer, ClipsTheNormOfAllGradientsTogether) {
  Toy toy;  // the norm is 13
  const Optimizer optimizer(toy.parameters,
                            {.rule = Sgd{.momentum = 0}, .schedule = ConstantRate{.rate = 1}, .clip_norm = 6.5});
  toy.train(optimizer);
  EXPECT_NEAR(toy.w()[0], 1 - 1.5, 1e-6);
  EXPECT_NEAR(toy.b()[0], 1 - 6, 1e-6);
  EXPECT_NEAR(evaluate(global_norm(toy.grads()), test_backend()).item(), 13, 1e-6);
}

TEST(Optimizer, ClipsTheNormWithoutTheLossScale) {
  for (const double scale : {4.0, 0.0}) {  // 0: dynamic
    Toy toy;                               // the norm is 13 times the scale
    for (std::vector<double>* grads : {&toy.grad_weight, &toy.grad_bias})
      for (double& grad : *grads) grad *= 4;
    const Optimizer optimizer(toy.parameters, {.rule = Sgd{.momentum = 0},
                                               .schedule = ConstantRate{.rate = 1},
                                               .clip_norm = 6.5,
                                               .loss_scale = {.scale = scale, .initial = 4}});
    toy.train(optimizer);
    EXPECT_NEAR(toy.w()[0], 1 - 1.5, 1e-6) << scale;
    EXPECT_NEAR(toy.b()[0], 1 - 6, 1e-6) << scale;
  }
}

TEST(Optimizer, LeavesSmallGradientsAsTheyAre) {
  Toy toy;
  const Optimizer optimizer(toy.parameters,
                            {.rule = Sgd{.momentum = 0}, .schedule = ConstantRate{.rate = 1}, .clip_norm = 14});
  toy.train(optimizer);
  EXPECT_EQ(toy.b()[0], 1 - 12);
}

TEST(Optimizer, ClipsElementsBeforeTheNorm) {
  Toy toy;
  const Optimizer optimizer(
      toy.parameters,
      {.rule = Sgd{.momentum = 0}, .schedule = ConstantRate{.rate = 1}, .clip_value = 2, .clip_norm = std::sqrt(3.0)});
  toy.train(optimizer);  // 2, -2 and 2: the norm is 2 sqrt(3)
  EXPECT_NEAR(toy.w()[0], 0, 1e-6);
  EXPECT_NEAR(toy.w()[1], 2, 1e-6);
  EXPECT_NEAR(toy.b()[0], 0, 1e-6);
}

TEST(Optimizer, AdamCountsUpdates) {
  Toy toy;
  const Optimizer optimizer(toy.parameters, {.rule = Adam{}, .schedule = ConstantRate{.rate = 0.25}});
  toy.train(optimizer, 2);  // with a constant gradient each step is the rate
  EXPECT_NEAR(toy.w()[0], 1 - 0.5, 1e-5);
  EXPECT_NEAR(toy.w()[1], 1 + 0.5, 1e-5);
  EXPECT_EQ(toy.w()[2], 1);
}

// Published: Kingma and Ba's 0.001, Zeiler's 1, and PyTorch's defaults for the others.
TEST(Optimizer, WithoutAScheduleTheRateIsTheRulesUsualOne) {
  const struct {
    AnyOptimizer rule;
    double rate;
  } kCases[] = {{Sgd{}, 0.01},     {Adam{}, 0.001},   {AdamW{}, 0.001},
                {RmsProp{}, 0.01}, {Adagrad{}, 0.01}, {Adadelta{}, 1}};
  for (const auto& c : kCases) {
    Toy toy;
    EXPECT_EQ(Optimizer(toy.parameters, {.rule = c.rule}).schedule().rate(0), c.rate) << c.rule.kind();
    const AnySchedule given = ConstantRate{.rate = 0.3};
    EXPECT_EQ(Optimizer(toy.parameters, {.rule = c.rule, .schedule = given}).schedule().rate(0), 0.3) << c.rule.kind();
  }
  Toy toy;
  toy.train(Optimizer(toy.parameters, {.rule = Adam{}}), 2);  // with a constant gradient each step is the rate
  EXPECT_NEAR(toy.w()[0], 1 - 0.002, 1e-6);
}

TEST(Optimizer, StateIsNamedByParameterAndBuffer) {
  Toy toy;
  const Optimizer optimizer(toy.parameters, {.rule = Adam{}, .schedule = PlateauRate{}});
  std::vector<std::string> names;
  for (const Variable& v : optimizer.state().all()) names.push_back(v.name());
  EXPECT_EQ(names, (std::vector<std::string>{"shared.plateau_factor", "shared.plateau_best", "shared.plateau_waited",
                                             "shared.plateau_cooling", "shared.step", "fc.weight.exp_avg",
                                             "fc.weight.exp_avg_sq", "fc.bias.exp_avg", "fc.bias.exp_avg_sq"}));
}

// Numbers that no parameter owns come from a checkpoint's numbers, which are checked against these.
TEST(Optimizer, SharedStateHasRangesThatHoldIt) {
  for (const bool maximize : {false, true}) {
    Toy toy;
    const Optimizer optimizer(toy.parameters,
                              {.schedule = PlateauRate{.maximize = maximize}, .loss_scale = {.scale = 0}});
    int shared = 0;
    for (const Variable& v : optimizer.state().all()) {
      if (!v.name().starts_with("shared.")) continue;
      ++shared;
      ASSERT_TRUE(v.range()) << v.name();
      EXPECT_GE(v.array().item(), v.range()->least) << v.name();
      EXPECT_LE(v.array().item(), v.range()->most) << v.name();
    }
    EXPECT_EQ(shared, 8);
  }
}

TEST(Optimizer, LearnsALine) {
  Parameters parameters;
  const Variable slope = parameters.make("slope", {}), offset = parameters.make("offset", {});
  const Optimizer optimizer(parameters, {.rule = Sgd{.momentum = 0.9}, .schedule = ConstantRate{.rate = 0.05}});
  Step step(test_backend(), [&](const Inputs& in) {
    const Tensor loss = mean(square(slope * in["x"] + offset - in["y"]));
    optimizer.update(gradients(loss, parameters));
    return Outputs{{"loss", loss}};
  });
  const Array x = Array::from(std::vector<float>{-1, 0, 1, 2}, {4}),
              y = Array::from(std::vector<float>{-5, -2, 1, 4}, {4});
  for (int i = 0; i < 300; ++i) step({{"x", x}, {"y", y}});
  EXPECT_NEAR(slope.array().item(), 3, 1e-3);
  EXPECT_NEAR(offset.array().item(), -2, 1e-3);
}

TEST(Optimizer, SaysWhatDoesNotFit) {
  Toy toy;
  EXPECT_EQ(error_of([&] { Optimizer(toy.parameters, {.groups = {{.match = "conv*"}}}); }),
            "parameter_groups.0: conv* holds no parameter; the parameters are fc.weight, fc.bias");
  EXPECT_EQ(error_of([&] {
              Optimizer(toy.parameters, {.freeze = {"*", "conv*"}});
            }),
            "freeze.1: conv* is the name of no parameter; the parameters are fc.weight, fc.bias");
  EXPECT_EQ(error_of([&] { Optimizer(toy.parameters, {.groups = {{.optimizer = Adam{.eps = -1}}}}); }),
            "parameter_groups.0.optimizer: eps is -1, expected a number from 0 up");
  EXPECT_EQ(error_of([&] { Optimizer(toy.parameters, {.groups = {{.schedule = CosineRate{}}}}); }),
            "parameter_groups.0.schedule (cosine): cosine: epochs is 0 and the run's length is not known; set epochs");
  EXPECT_EQ(error_of([&] { Optimizer(toy.parameters, {.groups = {{.rate = -1}}}); }),
            "parameter_groups.0: rate is -1, expected a number from 0 up");
  EXPECT_EQ(error_of([&] { Optimizer(toy.parameters, {.rule = Sgd{.weight_decay = -1}}); }),
            "optimizer (sgd): weight_decay is -1, expected a number from 0 up");
  EXPECT_EQ(error_of([&] { Optimizer(toy.parameters, {.clip_norm = -1}); }),
            "optimizer (sgd): clip_value is 0 and clip_norm -1, expected numbers from 0 up");
  const Optimizer optimizer(toy.parameters, {});
  const Variable other = Parameters().make("other", {2});
  EXPECT_EQ(error_of([&] {
              Trace trace;
              optimizer.update({{other, zeros({2})}});
            }),
            "optimizer: parameter other is not one of its own");
}

// 1,000 steps of 1/64 of the distance of neighbours: to the nearest nothing moves, in the mean of random roundings all
// of it does. Stored halves and formats kept in f32 alike.
TEST(Optimizer, StochasticUpdatesLoseNoSmallSteps) {
  const struct {
    Dtype stored;
    const char* format;
    double ulp;  // of 1 and of what follows it
    Shape shape;
  } rows[] = {{Dtype::f16, "", 0x1p-10, {4000}},
              {Dtype::bf16, "", 0x1p-7, {4000}},
              {Dtype::bf16, "", 0x1p-7, {40, 10, 5, 2}},
              {Dtype::f32, "e4m3", 0x1p-3, {4000}}};
  constexpr std::int64_t kCount = 4000;
  for (const auto& row : rows)
    for (const char* rounding : {"nearest", "stochastic"}) {
      Parameters parameters(3, row.stored);
      const Variable w = parameters.make("fc.weight", row.shape, Init::constant(1));
      const Optimizer optimizer(parameters, {.rule = Sgd{.momentum = 0},
                                             .schedule = ConstantRate{.rate = row.ulp / 64},
                                             .groups = {{.format = row.format, .rounding = rounding}}});
      Step step(test_backend(), [&](const Inputs&) {
        optimizer.update({{w, full(row.shape, -1.0, row.stored)}});
        return Outputs{};
      });
      for (int i = 0; i < 100; ++i) step({});
      double mean = 0;
      for (const float each : w.array().to(Dtype::f32).to_vector<float>()) {
        mean += each;
        EXPECT_EQ(std::fmod(each - 1, row.ulp), 0);
      }
      const double moved = (mean / kCount - 1) / (row.ulp / 64);
      if (std::string(rounding) == "nearest")
        EXPECT_EQ(moved, 0) << row.format;
      else
        EXPECT_NEAR(moved, 100, 5) << to_string(row.stored) << row.format;  // 64 sqrt(100/64 / 4000) = 1.3
    }
}

TEST(Optimizer, RoundingsThatNoGroupCanHave) {
  Toy toy;
  const std::pair<ParameterGroup, const char*> rows[] = {
      {{.format = "e9m1"}, "parameter_groups.0: format e9m1: expected 2 to 8 bits"},
      {{.rounding = "stochastic"}, "parameter_groups.0: rounding is stochastic and its parameters are f32"},
      {{.rounding = "up"}, "parameter_groups.0: rounding is up"},
  };
  for (const auto& [group, text] : rows) {
    const std::string line = error_of([&] { Optimizer(toy.parameters, {.groups = {group}}); });
    EXPECT_EQ(line.substr(0, std::string(text).size()), text);
  }
}

}  // namespace
}  // namespace nixie
