// A mistake in a configuration names its line, whenever it is found: when it is read, when the data are there, when
// the model is built, when the step is traced, or in the first evaluation.
#include "nixie/apps/trainer/commands/command_line.h"
#include "nixie/tests/apps/support.h"
#include "nixie/tests/errors.h"

namespace nixie {
namespace {

struct Mistake {
  std::string yaml;  // its lines from the first on; the rest follows
  std::string expected;
  Fault fault = Fault::usage;
};

/// The line of the error of a dry run.
std::string mistake_of(const Mistake& mistake, const std::string& rest) {
  testing::internal::CaptureStdout();
  const std::string line = error_of(mistake.fault, [&] { run_dry(parse_config(mistake.yaml + rest, "net.yaml")); });
  testing::internal::GetCapturedStdout();
  return line;
}

const std::string kData = "data: {glyphs: {train: 60, test: 20, batch: 20}}\n", kEnd = "steps: 1\nbackend: cpu\n",
                  kNet = "model: {mlp: {hidden: [4]}}\n";

TEST(ConfigLines, OfLayersAreTheirs) {
  const Mistake kMistakes[] = {
      {"model:\n  - flatten\n  - conv2d: {out: 5, kernel: 3}\n", "net.yaml:3:5: 1 (conv2d): input is [20, 784]"},
      {"model:\n  - {conv2d: {out: 5, kernel: 300}, name: first}\n", "net.yaml:2:5: first (conv2d): conv: a window"},
      {"model:\n  - sum:\n      branches:\n        - identity\n        - conv2d: {out: 5, kernel: 29}\n",
       "net.yaml:5:11: 0.1 (conv2d): conv: a window"},
      {"model:\n  - sum:\n      branches:\n        - identity\n        - conv2d: {out: 5, kernel: 1}\n",
       "net.yaml:2:5: 0 (sum): branch 1 gives"},
      {"model:\n  - sum: {branches: []}\n", "net.yaml:2:5: 0 (sum): has neither branches nor several inputs"},
      {"model:\n  - group_norm: {groups: 3}\n", "net.yaml:2:5: 0 (group_norm): 1 channels do not split"},
      {"model:\n  - layer_norm: {first: 9}\n", "net.yaml:2:5: 0 (layer_norm): input is"},
      {"model:\n  - upsample: {mode: lanczos}\n", "net.yaml:2:22: unknown model.0.upsample.mode \"lanczos\""},
      {"model:\n  - pad: {pad: 40, mode: reflect}\n", "net.yaml:2:5: 0 (pad): pad 40 reflects more"},
      {"model:\n  - adaptive_avg_pool2d: {out: 100000}\n", "net.yaml:2:5: 0 (adaptive_avg_pool2d): 100000 parts"},
      {"model:\n  - flatten\n  - dropout: {rate: 0.5}\n", "net.yaml:2:3: the model has no parameters"},
      // a net by its name, whose layers have no lines
      {"seed: 1\nmodel: {alexnet: {}}\n", "net.yaml:2:8: "},
      {"seed: 1\nmodel: {mlp: {classes: 2}}\n", "net.yaml:2:8: the model has 2 outputs"},
      {"model:\n  - conv2d: {out: 10, kernel: 3}\n", "net.yaml:2:5: the model's output is [10, 26, 26]"},
      // the layer that gives the outputs
      {"model:\n  - flatten\n  - linear: {out: 32}\n  - relu\n  - linear:\n      out: 5\n  - tanh\n",
       "net.yaml:5:5: the model has 5 outputs, the data 10 classes"},
      {"model:\n  - sum:\n      branches:\n        - conv2d: {out: 4, kernel: 1}\n        - conv2d: {out: 4, kernel: "
       "1}\n"
       "  - adaptive_avg_pool2d: {out: 1}\n  - flatten\n",
       "net.yaml:5:11: the model has 4 outputs"},
  };
  for (const Mistake& mistake : kMistakes)
    EXPECT_THAT(mistake_of(mistake, kData + kEnd), StartsWith(mistake.expected)) << mistake.yaml;
  // Found when the step is traced: one sample has no deviation.
  EXPECT_THAT(mistake_of({"model:\n  - flatten\n  - batch_norm\n  - linear: {out: 10}\n", ""},
                         "data: {glyphs: {train: 40, test: 20, batch: 1}}\n" + kEnd),
              StartsWith("net.yaml:3:5: 1 (batch_norm): input is [1, 784]: training needs more than one value"));
}

TEST(ConfigLines, OfKeysAreTheirs) {
  const Mistake kMistakes[] = {
      {"loss: {cross_entropy: {class_weights: [1, 2]}}\n",
       "net.yaml:1:7: cross_entropy: 2 class weights, the output has 10 classes"},
      {"loss: {cross_entropy: {class_weights: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]}}\n",
       "net.yaml:1:7: cross_entropy: all class weights are 0"},
      {"metrics:\n  - recall\n  - top_k: {k: 11}\n", "net.yaml:3:5: top_k: k is 11, the output has 10 classes"},
      {"seed: 1\nloss:\n  loss_sum: {losses: []}\n", "net.yaml:3:3: loss_sum: has no losses"},
      {"loss:\n  loss_sum: {losses: [{loss: cross_entropy, weight: 0}]}\n",
       "net.yaml:2:3: loss_sum: all weights are 0"},
      {"optimizer: {adam: {beta1: 0.9999999999999999}}\n",
       "net.yaml:1:12: optimizer (adam): beta1 is 0.9999999999999999"},
      {"optimizer: {rmsprop: {alpha: 0.99999999999}}\n",
       "net.yaml:1:12: optimizer (rmsprop): alpha is 0.99999999999, with"},
      {"ema: 0.99999999999\n", "net.yaml:1:6: ema is 0.99999999999, with which the average never changes"},
      {"optimizer: {adam: {beta1: 1}}\n", "net.yaml:1:12: optimizer (adam): beta1 is 1"},
      {"schedule: {multistep: {milestones: [1, 2], factors: [1]}}\n", "net.yaml:1:11: schedule (multistep): "},
      {"parameter_groups:\n  - {max_rank: 1}\n  - {match: conv*}\n",
       "net.yaml:3:5: parameter_groups.1: conv* holds no parameter"},
      {"parameter_groups:\n  - {max_rank: 1}\n  - optimizer: {adam: {beta1: 1}}\n",
       "net.yaml:3:16: parameter_groups.1.optimizer: beta1 is 1"},
      {"parameter_groups:\n  - schedule: {multistep: {milestones: [1, 2], factors: [1]}}\n",
       "net.yaml:2:15: parameter_groups.0.schedule (multistep): "},
      {"parameter_groups:\n  - schedule: plateau\n", "net.yaml:2:5: parameter_groups.0: its schedule is a plateau"},
      {"freeze:\n  - \"1.*\"\n  - conv*\n", "net.yaml:3:5: freeze.1: conv* is the name of no parameter"},
      {"freeze: [\"*\"]\n", "net.yaml:1:9: freeze and parameter_groups leave no parameter"},
      {"parameter_groups: [{rate: 0}]\n", "net.yaml:1:19: freeze and parameter_groups leave no parameter"},
      {"accumulate: 4\n", "net.yaml:1:13: an epoch has 3 batches of 20, a step takes 4", Fault::data},
      {"epochs: 900000000\nsteps: 0\nmetrics: []\n", "net.yaml:1:9: the run has 2700000000 steps"},
      {"target: input\nloss: mean_squared\n", "net.yaml:3:8: the model's output is [10] for a sample [1, 28, 28]"},
  };
  for (const Mistake& mistake : kMistakes) {
    const bool ends = mistake.yaml.find("steps: 0") != std::string::npos;
    EXPECT_THAT(mistake_of(mistake, kNet + kData + (ends ? "backend: cpu\n" : kEnd)), StartsWith(mistake.expected))
        << mistake.yaml;
  }
  const Mistake kOfAutoencoders[] = {
      {"metrics:\n  - mean_error\n  - recall\n", "net.yaml:3:5: recall: labels are f32 [20, 784]"},
      {"mixing: {mixup: 1}\n", "net.yaml:1:9: mixing shares a loss between two labels"},
      {"schedule: {plateau: {maximize: true}}\n", "net.yaml:1:11: schedule: the plateau watches the accuracy"},
  };
  for (const Mistake& mistake : kOfAutoencoders)
    EXPECT_THAT(mistake_of(mistake, "model: {mlp: {hidden: [4], classes: 784}}\ntarget: input\nloss: mean_squared\n" +
                                        kData + kEnd),
                StartsWith(mistake.expected))
        << mistake.yaml;
  const Mistake few{"data:\n  glyphs: {train: 60, batch: 99}\n",
                    "net.yaml:2:30: the dataset has 60 samples, too few for a batch of 99; set a smaller batch",
                    Fault::data};
  EXPECT_THAT(mistake_of(few, kNet + kEnd), StartsWith(few.expected));
  // A key that the file does not hold has the file's place: the loss for targets that are numbers.
  EXPECT_THAT(mistake_of({"target: input\n", ""}, "model: {mlp: {hidden: [4], classes: 784}}\n" + kData + kEnd),
              StartsWith("net.yaml:1:1: cross_entropy takes classes, the targets are the input; "));
}

}  // namespace
}  // namespace nixie
