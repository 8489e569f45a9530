// Configurations of neon as its examples write them: the first versions keep options under `config`, the later ones
// beside `type`.
#include "nixie/configs/parse/neon.h"

#include <unistd.h>

#include "nixie/configs/parse/config.h"
#include "nixie/core/step.h"
#include "nixie/optimizers/schedule.h"
#include "nixie/tests/errors.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

class NeonTest : public testing::Test {
 protected:
  ~NeonTest() override { fs::remove(file_); }
  std::string converted(const std::string& text) {
    std::ofstream(file_) << text;
    return neon_config(file_);
  }
  TrainConfig config_of(const std::string& text) { return parse_config(converted(text), "converted"); }
  Shape output_of(const TrainConfig& config, const Shape& input) { return Model(config.model, input).output_shape(); }

  fs::path file_ = fs::path(testing::TempDir()) / ("neon_" + std::to_string(::getpid()) + ".yaml");
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
  EXPECT_THAT(config.optimizer.text(), StartsWith("sgd: {momentum: 0.9"));
  EXPECT_THAT(config.schedule.text(), StartsWith("constant: {rate: 0.1"));
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
  std::string broken = kConvNet;
  broken.erase(broken.find("epochs:") + 6, 1);
  EXPECT_FAULT(usage, ":4:1: no `: ` in this line", converted(broken));
}

/// A file whose first layer, which ends in line 4, cost and so on are given.
std::string net(const std::string& layer, const std::string& optimizer = "{type: Adam}",
                const std::string& cost = "SumSquared", const std::string& others = "epochs: 6") {
  return fmt::format(
      "dataset: {{name: mnist}}\noptimizer: {}\nlayers:\n- {}\n- {{type: Affine, nout: 4, init: Kaiming}}\ncost: "
      "{}\n{}\n",
      optimizer, layer, cost, others);
}
std::string sgd(const std::string& others) {
  return net("BatchNorm", "{type: GradientDescentMomentum, learning_rate: 1, momentum_coef: 0.9, " + others + "}");
}

TEST_F(NeonTest, LayersWithTheirDefaults) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{type: neon.layers.layer.Conv, fshape: {K: 8, S: 5, R: 3}, init: Kaiming, padding: {pad_w: 2, pad_h: 1}, "
       "strides: {str_w: 2}, "
       "dilation: {dil_h: 2, dil_w: 2}}",
       "- conv2d: {out: 8, kernel: [3, 5], stride: [1, 2], pad: [1, 2], dilation: 2, bias: false, init: kaiming}\n"},
      {"{type: Conv, fshape: [3, 3, 8], padding: {pad_d: 0, pad_h: 1, pad_w: 1}, batch_norm: yes, init: Kaiming}",
       "- conv2d: {out: 8, kernel: 3, stride: 1, pad: 1, bias: false, init: kaiming}\n  - batch_norm: {momentum: 0.1, "
       "eps: 0.001}\n"},
      {"{type: Conv, fshape: [2, 3, 8], init: Xavier, bias: {type: Uniform}}",
       "init: {uniform: {low: -0.707106781, high: 0.707106781}}, bias_init: {uniform: {low: 0, high: 1}}}\n"},
      {"{type: Conv, fshape: [1, 2, 4], init: GlorotUniform}", "init: {uniform: {low: -1, high: 1}}}\n"},
      {"{type: Conv, fshape: [1, 2, 8], init: {type: Kaiming, local: No}}",
       "init: {normal: {deviation: 0.5, mean: 0}}}\n"},
      {"{type: Conv, fshape: [1, 2, 8], init: Kaiming}", "bias: false, init: kaiming}\n"},
      {"{type: Linear, nout: 12, init: Xavier, parallelism: Data}",
       "- linear: {out: 12, bias: false, init: {uniform: {low: -0.5, high: 0.5}}}\n"},
      {"{type: Linear, nout: 12, init: {type: Kaiming, local: false}}", "init: kaiming}\n"},
      {"{type: Linear, nout: 12, init: GlorotUniform}", "init: {glorot: {gain: 1}}}\n"},
      {"{type: Linear, nout: 12, init: Orthonormal}", "init: {orthonormal: {scale: 1.1}}}\n"},
      {"{type: Pooling, fshape: {S: 3, R: 2}, op: avg, padding: 1}",
       "- avg_pool2d: {window: [2, 3], stride: [2, 3], pad: 1, count_pad: false}\n"},
      {"{type: Pooling, fshape: 2, op: l2, strides: {str_h: 1}}", "- l2_pool2d: {window: 2, stride: [1, 2], pad: 0}\n"},
      {"{type: Pooling, fshape: all}", "- global_max_pool\n"},
      {"{type: LRN, depth: 5, ascale: 1.25e-5, bpower: 0.75}",
       "- lrn: {size: 5, alpha: 1.25e-5, beta: 0.75, bias: 1}\n"},
      {"{type: Dropout, keep: 0.9}", "- dropout: {rate: 0.1}\n"},
      {"{type: BatchNorm, rho: 0.99, eps: 1e-6}", "- batch_norm: {momentum: 0.01, eps: 1e-6}\n"},
      {"{type: Activation, transform: Rectlinclip}", "- relu_clipped: {cut: 20}\n"},
      {"{type: Activation, transform: {type: Rectlin, slope: 0.1}}", "- relu: {slope: 0.1}\n"},
      {"{type: Activation, transform: {type: Explin}}", "- elu: {alpha: 1}\n"},
  };
  for (const auto& [layer, expected] : kCases) {
    const std::string text = converted(net(layer));
    EXPECT_THAT(text, HasSubstr(expected));
    EXPECT_NO_THROW(output_of(parse_config(text, "converted"), {2, 1, 28, 28})) << layer;
  }
}

// Rates by Schedule.get_learning_rate, at the first step of each epoch.
TEST_F(NeonTest, RatesOfEverySchedule) {
  const std::pair<const char*, std::vector<double>> kCases[] = {
      {"{type: Schedule}", {1, 1, 1, 1, 1, 1}},
      {"{type: Schedule, config: {step_config: [2, 4], change: 0.5}}", {1, 1, 0.5, 0.5, 0.25, 0.25}},
      {"{type: Schedule, step_config: [1, 3], change: [0.6, 0.4]}", {1, 0.6, 0.6, 0.4, 0.4, 0.4}},
      {"{type: StepSchedule, step_config: [1, 3], change: [0.6, 0.4]}", {1, 0.6, 0.6, 0.4, 0.4, 0.4}},
      {"{type: PowerSchedule, step_config: 2, change: 0.5}", {1, 1, 0.5, 0.5, 0.25, 0.25}},
      {"{type: ExpSchedule, decay: 0.5}", {1, 1 / 1.5, 1 / 2., 1 / 2.5, 1 / 3., 1 / 3.5}},
      {"{type: PolySchedule, total_epochs: 4, power: 2}", {1, 0.5625, 0.25, 0.0625, 0, 0}},
  };
  for (const auto& [schedule, expected] : kCases) {
    const TrainConfig config = config_of(sgd(fmt::format("schedule: {}", schedule)));
    const Schedule rates(config.schedule, {.steps_per_epoch = 10, .epochs = 6}, Parameters());
    for (std::size_t epoch = 0; epoch < expected.size(); ++epoch)
      EXPECT_NEAR(rates.rate(static_cast<std::int64_t>(10 * epoch)), expected[epoch], 1e-7) << schedule << epoch;
  }
}

// The costs of neon/transforms/cost.py for four outputs, of which the third is the class.
TEST_F(NeonTest, ValuesOfEveryCost) {
  const struct {
    const char *cost, *last;  // activation
    double expected;
  } kCases[] = {
      {"SumSquared", "Identity", 1.15625},
      {"MeanSquared", "Identity", 0.2890625},
      {"CrossEntropyMulti", "Softmax", 0.3692790},
      {"{type: CrossEntropyMulti, usebits: True}", "Softmax", 0.5327570},
      {"{type: CrossEntropyMulti, config: {scale: 3}}", "Softmax", 3 * 0.3692790},
      {"CrossEntropyBinary", "Logistic", 2.2402061},
      {"{type: GeneralizedCost, config: {costfunc: {type: CrossEntropyBinary, scale: 2}}}", "Logistic", 2 * 2.2402061},
      {"SmoothL1Loss", "Identity", 1.15625},
      {"{type: SmoothL1Loss, sigma: 2}", "Identity", 2.25},
      {"SquareHingeLoss", "Identity", 0.953125},
      {"{type: SquareHingeLoss, margin: 0.5}", "Identity", 0.390625},
  };
  const Tensor output = Array::from(std::vector<float>{0.5f, -1, 2, 0.25f}, {1, 4}),
               label = Array::from(std::vector<std::int32_t>{2}, {1});
  for (const auto& c : kCases) {
    const TrainConfig config =
        config_of(net("BatchNorm", "{type: Adam}", c.cost,
                      fmt::format("layers: [{{type: Affine, nout: 4, init: Kaiming, activation: {}}}]", c.last)));
    EXPECT_NEAR(evaluate(config.loss(output, label), test_backend()).item(), c.expected, 1e-6) << c.cost;
  }
}

TEST_F(NeonTest, OptimizersWithTheirDefaults) {
  const std::pair<std::string, const char*> kCases[] = {
      {sgd("wdecay: 0.00012345678, nesterov: On"),
       "{sgd: {momentum: 0.9, weight_decay: 0.00012345678, nesterov: true}}"},
      {sgd("gradient_clip_norm: 5"), "\nclip_norm: 5\n"},
      {net("BatchNorm", "{type: Adam, gradient_clip_value: 5}"),
       "optimizer: {adam: {beta1: 0.9, beta2: 0.999, eps: 1e-08}}\nschedule: {constant: {rate: 0.001}}\nclip_value: "
       "5\n"},
      {net("BatchNorm", "{type: RMSProp, stochastic_round: True}"),
       "optimizer: {rmsprop: {alpha: 0.95, eps: 0.001}}\nschedule: {constant: {rate: 0.002}}\n"},
      {net("BatchNorm", "{type: Adagrad, epsilon: 0.0004}"),
       "{adagrad: {eps: 0.02}}\nschedule: {constant: {rate: 0.01}}\n"},
      {net("BatchNorm", "Adadelta"), "{adadelta: {rho: 0.95, eps: 1e-06}}\nschedule: {constant: {rate: 1}}\n"},
      // A name counts before a class.
      {net("{type: Affine, name: first, nout: 4, init: Kaiming, bias: Constant}",
           "{type: MultiOptimizer, default: Adam, Linear: Adadelta, first: Adagrad, first_bias: RMSProp, Bias: Adam}"),
       "parameter_groups:\n  - {match: \"first.weight\", optimizer: {adagrad: {eps: 0.001}}, schedule: {constant: "
       "{rate: "
       "0.01}}}\n  - {match: \"first.bias\", optimizer: {rmsprop: {alpha: 0.95, eps: 0.001}}, schedule: {constant: "
       "{rate: "
       "0.002}}}\n  - {match: \"first.weight\", optimizer: {adadelta"},
  };
  for (const auto& [text, expected] : kCases) EXPECT_THAT(converted(text), HasSubstr(expected));
  EXPECT_THAT(converted(net("BatchNorm", "Adam")), HasSubstr("\n# neon adds Adam's epsilon before it corrects the"));
}

// A net without linear layers ends in rows, and pictures are as neon's program reads them.
TEST_F(NeonTest, AnAllConvolutionalNetAndItsPictures) {
  const std::string file = R"(
layers: [{type: Conv, fshape: [3, 3, 10], init: Kaiming}, {type: Pooling, fshape: all, op: avg}, {type: Activation, transform: Softmax}]
cost: CrossEntropyMulti
optimizer: {type: Adam}
dataset: {name: I1K, train_config: {image: {height: 112, width: 112, scale: [0.5, 0.5], center: False}},
          test_config: {image: {scale: [0.5, 0.5]}}}
)";
  const std::string text = converted(file);
  EXPECT_THAT(text, HasSubstr("{batch: 128, crop: 112, resize: 224, flip: false, mean: [0.498039216, 0.466666667, "
                              "0.407843137], deviation: [0.00392156863, 0.00392156863, 0.00392156863], path: images}"));
  EXPECT_EQ(output_of(parse_config(text, "converted"), {2, 3, 112, 112}), Shape({10}));
  EXPECT_EQ(config_of(file).epochs, 1);
  const struct {
    std::string from, to, expected;
  } kRefused[] = {
      {"center: False", "center: True", "5:44: training crops at random, expected center: false"},
      {"image: {scale", "image: {center: False, scale", "the test half is cropped from the centre"},
      {"width: 112", "width: 100", "expected squares of the same size and scale"},
      {"scale: [0.5, 0.5]}}}", "scale: [0.5, 0.6]}}}", "6:40: scale, expected two equal numbers"},
      {"train_config: {", "train_config: {shuffle_manifest: no, ", "training samples are always shuffled"},
      {"center: False", "center: False, contrast: 2", "key \"contrast\" of image"},
  };
  for (const auto& c : kRefused) {
    std::string changed = file;
    changed.replace(changed.find(c.from), c.from.size(), c.to);
    EXPECT_FAULT(usage, c.expected, converted(changed));
  }
}

// Each key of the file is either converted or reported at its place in neon's file.
TEST_F(NeonTest, NoKeyIsDropped) {
  const std::pair<std::string, const char*> kCases[] = {
      {net("{type: Affine, nout: 4, actvation: Tanh, init: Kaiming}"),
       "4:27: key \"actvation\" of Affine has no counterpart that this converter knows; expected name, "
       "linear_name, nout, init, bias, batch_norm, activation; did you mean \"activation\"?"},
      {net("{type: Linear, nout: 4, bias: {type: Constant}, init: Kaiming}"),
       "4:27: key \"bias\" of Linear has no counterpart"},
      {net("{type: Linear, config: {nout: 4, init: {type: Gaussian, std: 1}}}"), "4:59: key \"std\" of Gaussian"},
      {net("{type: Conv, fshape: [3, 3, 8], padding: {pad_x: 1}, init: Kaiming}"), "4:45: key \"pad_x\" of padding"},
      {net("{type: LRN, depth: 5, alpha: 0.1}"), "4:25: key \"alpha\" of LRN"},
      {net("{type: BatchNorm, binary: True}"), "4:21: key \"binary\" of BatchNorm"},
      {sgd("param_clip_value: 3"), "key \"param_clip_value\" of GradientDescentMomentum"},
      {sgd("schedule: {type: ExpSchedule, decay: 1, change: 2}"), "key \"change\" of ExpSchedule"},
      {net("BatchNorm", "{type: Adam, wdecay: 0.1}"), "2:25: key \"wdecay\" of Adam"},
      {net("BatchNorm", "{type: Adam, gradient_clip_norm: 5}"), "2:25: key \"gradient_clip_norm\" of Adam"},
      {net("BatchNorm", "{type: MultiOptimizer, default: {type: Adam, gradient_clip_value: 5}}"),
       "key \"gradient_clip_value\" of Adam"},
      {net("BatchNorm", "{type: Adam}", "{type: SumSquared, scale: 2}"), "6:26: key \"scale\" of SumSquared"},
      {net("BatchNorm", "{type: Adam}", "SumSquared", "batch_size: 32"),
       "7:1: key \"batch_size\" of the file has no counterpart that this converter knows; expected layers, dataset"},
      {net("{type: Linear, not: 4}"), "4:18: unknown key \"not\"; did you mean \"nout\"?"},
      {net("{type: Affine, init: Constant}"), "4:3: nout is missing, which neon requires"},
      {net("{type: Linear, nout: 10*2}"), "4:24: nout is \"10*2\", expected an integer"},
      {net("{type: Linear, nout: 0, init: Kaiming}"), "4:24: nout is 0, expected a number from 1 up"},
      {net("{type: Affine, nout: 4, batch_norm: 1, init: Kaiming}"),
       "4:39: batch_norm is \"1\", expected true or false"},
      {net("{type: Affine, nout: 4, batch_norm: yes, bias: Constant, init: Kaiming}"),
       "neon has either a bias or batch_norm"},
      {net("{type: Conv, fshape: [3, 3, 8], strides: {str_d: 2}}"), "4:44: str_d is not 1: nets with three axes"},
      {net("{type: Conv, fshape: [3, 3, 3, 8]}"), "4:24: fshape, expected [height, width, filters]"},
      {net("{type: Pooling, fshape: all, op: l2}"), "4:36: op is l2, expected max or avg where fshape is all"},
      {net("{type: Pooling, fshape: all, op: foo}"), "4:36: op is foo, expected max, avg or l2"},
      {net("{type: Activation, transform: {type: Logistic, shortcut: True}}"),
       "4:33: shortcut without CrossEntropyBinary"},
      {net("{type: Activation, transform: Softmax}"),
       "4:33: a Softmax that is not the last layer before CrossEntropyMulti"},
      {net("BatchNorm", "{type: Adam}", "MeanSquared",
           "layers: [{type: Affine, nout: 4, init: Kaiming, activation: Softmax}]"),
       "7:61: a Softmax that is not the last layer before CrossEntropyMulti"},
      {net("{type: Dropout, keep: 1.5}"), "4:25: keep is 1.5, expected a number from 0 to 1"},
      {net("{type: BatchNorm, config: {rho: -1}}"), "4:35: rho is -1, expected a number from 0 to 1"},
      {net("BatchNorm", "{type: RMSProp, epsilon: -1}"), "2:37: epsilon is -1, expected a number from 0 up"},
      {sgd("schedule: {type: ExpSchedule, decay: -1}"), "decay is -1, expected a number from 0 up"},
      {net("BatchNorm", "{type: Adam}", "{type: SmoothL1Loss, sigma: 0}"), "6:35: sigma is 0, expected another number"},
      {net("{type: Linear, nout: 4}"), "4:3: init is missing, which neon requires"},
      {net("{type: Conv, fshape: [3, 3, 8]}"), "4:3: init is missing, which neon requires"},
      {net("BatchNorm", "{type: Adam}", "SumSquared", "layers: [{type: Linear, nout: 4, init: Kaiming}, {type: Bias}]"),
       "7:50: init is missing, which neon requires"},
      {net("BatchNorm", "{type: Adam}", "SumSquared",
           "layers: [{type: Linear, name: a, nout: 4, init: Kaiming}, {type: Affine, linear_name: a, nout: 4, init: "
           "Kaiming}]"),
       "7:87: a second layer is named a; rename one of them"},
      {net("{type: Linear, name: a-b, nout: 4, init: Kaiming}"),
       "4:24: name is \"a-b\", expected letters, digits and _"},
      {sgd("gradient_clip_norm: 1, gradient_clip_value: 1"), "neon takes the norm before it clips values"},
      {sgd("schedule: {type: ShiftSchedule, interval: 1}"), "schedule ShiftSchedule has no counterpart"},
      {sgd("schedule: {type: StepSchedule, step_config: [2], change: 0.5}"), "StepSchedule, expected lists"},
      {sgd("schedule: {type: Schedule, step_config: [3, 2], change: [1, 2]}"), "expected later epochs in later places"},
      {net("BatchNorm", "{type: Adam}", "SumSquared", "backend: gpuu"), "7:10: backend is gpuu, expected gpu"},
      {net("BatchNorm", "{type: Adam}", "SumSquared", "epochs: [1, 2]"), "7:9: epochs is a list, expected an integer"},
  };
  for (const auto& [text, expected] : kCases) {
    EXPECT_FAULT(usage, AllOf(StartsWith(file_.string() + ":"), HasSubstr(expected)), converted(text));
  }
  // Several at once, each at its place, though three layers repeat it; anchors at the root are no keys of neon.
  const std::string repeated = net("{type: Linear, nout: 4, init: *i}", "{type: Adam}", "SumSquared",
                                   "layers: [{type: Linear, nout: 4, init: *i}, {type: Linear, nout: 4, init: *i}]");
  try {
    converted("rate: &r 0.1\nunused: {type: Tanh}\ni: &i {type: Gaussian, std: 1, mu: *r}\nnone: 1\n" + repeated);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
    for (const char* line : {":1:1: key \"rate\"", ":3:24: key \"std\"", ":3:32: key \"mu\"", ":4:1: key \"none\""})
      EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(NeonTest, WhatItCannotConvertIsNamed) {
  const struct {
    std::string from, to, expected;
  } kCases[] = {
      {"type: Linear, config: {nout: 100", "type: LSTM, config: {nout: 100", "7:3: layer LSTM has no counterpart"},
      {"CrossEntropyBinary", "CrossEntropyMulti", "this cost includes the activation softmax"},
      {"learning_rate: 0.1", "learning_rate: fast", "13:68: learning_rate is \"fast\", expected a finite number"},
      {"name: mnist", "name: imdb", "dataset \"imdb\", expected mnist"},
      {"layers:", "levels:", "has no list of layers"},
      {"type: Gaussian", "type: Sparse", "initialiser Sparse has no counterpart"},
      {"type: Rectlin", "type: Normalizer", "transform Normalizer has no counterpart"},
  };
  for (const auto& each : kCases) {
    std::string text = kMlp;
    text.replace(text.find(each.from), each.from.size(), each.to);
    EXPECT_FAULT(usage, each.expected, converted(text));
  }
}

}  // namespace
}  // namespace nixie
