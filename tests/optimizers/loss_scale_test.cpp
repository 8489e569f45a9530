// The loss scale: gradients are those of the loss, steps that overflow change nothing, and the scale follows.
#include "nixie/optimizers/loss_scale.h"

#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/optimizers/optimizer.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

// loss = factor * w, so that the gradient of the scaled loss is factor * scale.
struct Line {
  Parameters parameters;
  Variable w = parameters.make("w", {2}, Init::constant(1)), seen = parameters.state("seen", {});
  Optimizer optimizer;
  Step step;

  explicit Line(const LossScaleOptions& scale)
      : optimizer(parameters, {.rule = Sgd{.momentum = 0.5}, .schedule = ConstantRate{.rate = 1}, .loss_scale = scale}),
        step(test_backend(), [this](const Inputs& in) {
          seen.set(seen + 1);
          optimizer.update(gradients(optimizer.scaled(sum(w * in["factor"])), parameters));
          return Outputs{};
        }) {}
  void run(double factor) { step({{"factor", Array::from(std::vector<float>{static_cast<float>(factor)}, {})}}); }
  double at(const char* name) const { return optimizer.state().find(name)->array().to_vector<double>()[0]; }
  std::vector<double> weights() const { return w.array().to_vector<double>(); }
};

TEST(LossScale, AFixedScaleChangesNoUpdate) {
  Line plain({.scale = 1}), scaled({.scale = 1024});
  for (double factor : {0.5, -0.25, 0.125}) plain.run(factor), scaled.run(factor);
  EXPECT_EQ(scaled.weights(), plain.weights());
  EXPECT_FALSE(scaled.optimizer.loss_scale().is_dynamic());
  EXPECT_FALSE(scaled.optimizer.state().find("shared.loss_scale"));
}

TEST(LossScale, AnOverflowSkipsTheWholeStepAndHalvesTheScale) {
  Line line({.scale = 0, .initial = 16, .growth_interval = 100});
  line.run(0.5);
  const std::vector<double> weights = line.weights();
  const double momentum = line.at("w.momentum_buffer");
  EXPECT_EQ(weights, (std::vector<double>{0.5, 0.5}));
  for (double bad : {double{INFINITY}, double{NAN}, 3e38}) {  // the last overflows by the scale alone
    line.run(bad);
    EXPECT_EQ(line.weights(), weights) << bad;
    EXPECT_EQ(line.at("w.momentum_buffer"), momentum) << bad;
    EXPECT_EQ(line.at("shared.step"), 1) << bad;
    EXPECT_EQ(line.seen.array().item(), 1) << bad;  // running statistics are state as well
  }
  EXPECT_EQ(line.at("shared.loss_scale"), 2);
  EXPECT_EQ(line.at("shared.skipped_steps"), 3);
  EXPECT_EQ(line.at("shared.good_steps"), 0);
  line.run(0.5);
  EXPECT_EQ(line.weights(), (std::vector<double>{-0.25, -0.25}));  // 0.5 - (0.5 * 0.5 + 0.5)
  EXPECT_EQ(line.at("shared.step"), 2);
}

TEST(LossScale, GoodStepsDoubleTheScale) {
  Line line({.scale = 0, .initial = 8, .growth_interval = 3});
  std::vector<double> scales;
  for (int i = 0; i < 7; ++i) {
    line.run(i == 4 ? double{INFINITY} : 0.125);
    scales.push_back(line.at("shared.loss_scale"));
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 8, 16, 16, 8, 8, 8}));
  line.run(0.125);
  EXPECT_EQ(line.at("shared.loss_scale"), 16);
}

TEST(LossScale, TheScaleStaysWhereItHelps) {
  Line line({.scale = 0, .initial = 0x1p-13, .growth_interval = 1});
  for (int i = 0; i < 3; ++i) line.run(NAN);
  EXPECT_EQ(line.at("shared.loss_scale"), 0x1p-14);
  for (int i = 0; i < 60; ++i) line.run(0);
  EXPECT_EQ(line.at("shared.loss_scale"), 0x1p24);
}

TEST(LossScale, OptionsOutOfRangeAreNamed) {
  const std::string scales = ", expected a number from 1e-37 to 1e+37";
  const struct {
    LossScaleOptions options;
    std::string error;
  } kCases[] = {
      {{.scale = -1}, "loss_scale is -1" + scales},
      {{.scale = 1e-40}, "loss_scale is 1e-40" + scales},  // its reciprocal is no f32 number
      {{.scale = 1e38}, "loss_scale is 1e+38" + scales},
      {{.scale = NAN}, "loss_scale is nan" + scales},
      {{.scale = 0, .initial = 0}, "the loss scale's initial is 0" + scales},
      {{.scale = 0, .initial = 1e39}, "the loss scale's initial is 1e+39" + scales},
      {{.scale = 0, .growth_interval = 0}, "the loss scale's growth_interval is 0, expected a number from 1 up"}};
  for (const auto& [options, error] : kCases) EXPECT_EQ(error_of([&] { LossScale(options, Parameters()); }), error);
  for (const double scale : {kLossScales.low, kLossScales.high}) {  // the ends are no overflow
    Line line({.scale = scale});
    line.run(0);
    EXPECT_EQ(line.weights(), (std::vector<double>{1, 1})) << scale;
  }
}

TEST(LossScale, ADynamicScaleStaysInItsRange) {
  for (const double initial : {kLossScales.low, kLossScales.high}) {
    Line line({.scale = 0, .initial = initial});
    for (const double factor : {0.0, double{NAN}, 0.0}) line.run(factor);
    EXPECT_EQ(line.weights(), (std::vector<double>{1, 1})) << initial;
    EXPECT_TRUE(line.at("shared.loss_scale") >= 0x1p-14 && line.at("shared.loss_scale") <= 0x1p24) << initial;
  }
}

}  // namespace
}  // namespace nixie
