// Configurations of neon as its examples write them: the first versions keep options under `config`, the later ones
// beside `type`.
#include "nixie/configs/parse/neon.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "nixie/configs/parse/config.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

using testing::HasSubstr;

class NeonTest : public testing::Test {
 protected:
  ~NeonTest() override { std::filesystem::remove(file_); }
  std::string converted(const std::string& text) {
    std::ofstream(file_) << text;
    return neon_config(file_);
  }
  TrainConfig config_of(const std::string& text) { return parse_config(converted(text), "converted"); }
  Shape output_of(const TrainConfig& config, const Shape& input) { return Model(config.model, input).output_shape(); }

  std::filesystem::path file_ =
      std::filesystem::path(testing::TempDir()) / ("neon_" + std::to_string(::getpid()) + ".yaml");
};

const std::string kMlp = R"(
backend: mkl
epochs: 10
batchsize: 128
wt_init: &wt_init {type: Gaussian, config: {loc: 0.0, scale: 0.01}}
layers:
- {type: Linear, config: {nout: 100, init: *wt_init}}
- {type: Activation, config: {transform: {type: Rectlin}}}
- {type: Linear, config: {nout: 10, init: *wt_init}}
- type: Activation
  config: {transform: {type: Logistic, config: {shortcut: True}}}
cost: CrossEntropyBinary
optimizer: {type: GradientDescentMomentum, config: {learning_rate: 0.1, momentum_coef: 0.9}}
dataset: {name: mnist}
)";

TEST_F(NeonTest, AnMlpWithOptionsUnderConfig) {
  const TrainConfig config = config_of(kMlp);
  EXPECT_EQ(config.backend, "cpu");
  EXPECT_EQ(config.epochs, 10);
  EXPECT_EQ(config.data.batch(), 128);
  EXPECT_THAT(config.data.text(), HasSubstr("normalize: false"));
  EXPECT_THAT(config.optimizer.text(), testing::StartsWith("sgd: {momentum: 0.9"));
  EXPECT_THAT(config.schedule.text(), testing::StartsWith("constant: {rate: 0.1"));
  EXPECT_THAT(config_text(config), HasSubstr("weight: 10"));  // neon adds the costs of ten outputs
  const Model model(config.model, {2, 1, 28, 28});
  EXPECT_EQ(model.output_shape(), Shape({10}));
  EXPECT_EQ(model.parameters().count(), 784 * 100 + 100 * 10);  // no biases, as neon's Linear
}

const std::string kMulti = R"(
cost: CrossEntropyBinary
epochs: 3
layers:
- {type: Linear, init: &id001 {scale: 0.01, type: Gaussian}, nout: 100}
- {type: Bias, init: {type: Constant}}
- {type: Activation, transform: {type: Rectlin}}
- {type: Linear, init: *id001, name: special_linear, nout: 10}
- {type: Bias, init: {type: Constant}}
- {type: Activation, transform: {shortcut: true, type: Logistic}}
optimizer:
  type: MultiOptimizer
  default: {learning_rate: 0.1, momentum_coef: 0.9, type: GradientDescentMomentum}
  special_linear: &id002 {type: RMSProp}
  Bias: *id002
dataset: {name: mnist}
)";

TEST_F(NeonTest, OptimizersByLayerAndType) {
  const TrainConfig config = config_of(kMulti);
  const Model model(config.model, {2, 1, 28, 28});
  const Optimizer optimizer(model.parameters(),
                            {.rule = config.optimizer, .schedule = config.schedule, .groups = config.parameter_groups},
                            {.steps_per_epoch = 10, .epochs = 3});
  EXPECT_TRUE(optimizer.state().find("1.weight.momentum_buffer"));
  for (const char* name : {"1.bias", "special_linear.weight", "special_linear.bias"}) {
    EXPECT_TRUE(optimizer.state().find(std::string(name) + ".square_avg")) << name;
    EXPECT_FALSE(optimizer.state().find(std::string(name) + ".momentum_buffer")) << name;
  }
}

const std::string kConvNet = R"(
backend: gpu
cost: CrossEntropyMulti
epochs: 10
batchsize: 64
wt_init: &a {type: Gaussian, scale: 0.01}
wt_init: &b {type: Gaussian, scale: 0.03}
b_init: &c {type: Constant, val: -7}
layers:
- {type: Conv, conv_name: conv1, bias_name: conv1b, fshape: [11, 11, 64], strides: 4, padding: 3, init: *a, bias: *c, activation: Rectlin}
- {type: Pooling, name: pool1, fshape: 3, strides: 2}
- {type: Convolution, config: {name: conv2, fshape: [5, 3, 192], padding: [2, 1], init: *b}}
- {type: BatchNorm, rho: 0.8}
- {type: Activation, transform: Tanh}
- {type: Pooling, fshape: 27, op: avg}
- {type: Dropout, keep: 0.6}
- {type: Affine, linear_name: fc, nout: 1000, init: *a, bias: *c, activation: Softmax}
optimizer:
  type: MultiOptimizer
  config:
    optimizer_mapping:
      default: {type: GradientDescentMomentum, learning_rate: 0.01, momentum_coef: 0.9, wdecay: 0.0005, schedule: {type: Schedule, step_config: [22, 44], change: 0.5}}
      Bias: {type: GradientDescentMomentum, learning_rate: 0.02, momentum_coef: 0.9, schedule: {type: Schedule, step_config: 44, change: 0.1}}
dataset: {name: i1k}
)";

TEST_F(NeonTest, AConvNetWithRepeatedAnchors) {
  const std::string text = converted(kConvNet);
  for (const char* line :
       {"- {conv2d: {out: 64, kernel: 11, stride: 4, pad: 3, init: {normal: {deviation: 0.01, mean: 0}}, bias_init: "
        "{constant: {value: -7}}}, name: conv1}",
        "kernel: [5, 3], stride: 1, pad: [2, 1], bias: false, init: {normal: {deviation: 0.03", "tanh", "momentum: 0.2",
        "avg_pool2d: {window: 27, stride: 27", "rate: 0.4", "loss: cross_entropy",
        "multistep: {rate: 0.01, factor: 0.5, milestones: [22, 44]}",
        "{match: \"conv1.bias\", optimizer: {sgd: {momentum: 0.9, weight_decay: 0, nesterov: false}}, schedule: {step: "
        "{rate: 0.02, factor: 0.1, every: 44}}}"})
    EXPECT_THAT(text, HasSubstr(line));
  const TrainConfig config = config_of(kConvNet);
  EXPECT_EQ(output_of(config, {2, 3, 224, 224}), Shape({1000}));
  ASSERT_EQ(config.parameter_groups.size(), 2u);
}

TEST_F(NeonTest, WhatItCannotConvertIsNamed) {
  const struct {
    std::string from, to, expected;
  } kCases[] = {
      {"type: Linear, config: {nout: 100", "type: LSTM, config: {nout: 100", "7:3: layer LSTM has no counterpart"},
      {"CrossEntropyBinary", "CrossEntropyMulti", "this cost includes the activation softmax"},
      {"learning_rate: 0.1", "learning_rate: fast", "learning_rate is \"fast\", expected a number"},
      {"name: mnist", "name: imdb", "dataset \"imdb\", expected mnist"},
      {"layers:", "levels:", "has no list of layers"},
      {"type: Gaussian", "type: Sparse", "initialiser Sparse is not known"},
      {"type: Rectlin", "type: Normalizer", "transform Normalizer has no counterpart"},
  };
  for (const auto& each : kCases) {
    std::string text = kMlp;
    text.replace(text.find(each.from), each.from.size(), each.to);
    EXPECT_THAT(error_of([&] { converted(text); }), HasSubstr(each.expected));
  }
}

}  // namespace
}  // namespace nixie
