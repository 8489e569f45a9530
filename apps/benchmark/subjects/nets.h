// The nets that are timed: small ones whole, convnet-benchmarks' by fprop and bprop, and that of any configuration.
#pragma once

#include <string>
#include <vector>

#include "nixie/configs/parse/config.h"
#include "nixie/models/model.h"

namespace nixie::benchmark {

struct Net {
  std::string name;
  AnyModel model;
  Shape sample;  ///< [C, H, W]
  int classes;
  int batch;
  int cpu_batch;  ///< what a CPU gets through in seconds
  AnyLoss loss = CrossEntropy{};
  OptimizerOptions training = {};
  RunLength run = {};          ///< what the schedule of the training goes by
  double output_gradient = 1;  ///< what bprop starts from is uniform in [0, output_gradient)
  bool bytes = false;          ///< images are stored as bytes and normalised where the net reads them
};

/// apps/peers/torch_steps.py holds the same list.
std::vector<Net> step_nets();

/// SGD with rate 0.001, momentum 0.9 and weight decay 5e-4: what the nets below, and the peers', train with.
OptimizerOptions common_training();

/// AlexNet, OverFeat (fast), VGG-A, VGG-E and GoogLeNet v1 of convnet-benchmarks: biases, no dropout, ReLU everywhere
/// but after the last layer. Then the nets that people train today as torchvision defines them, MobileNet v1, the net
/// of configs/cifar10.yaml and a wide multilayer perceptron; none has dropout. `nervana`: of the first five
/// nervanagpu's variant, without biases, with ReLU after the last layer and hidden linear layers of 3072.
std::vector<Net> conv_nets(bool nervana);

/// `depth` convolutions of 3x3 and 64 channels over images of side x side, then the mean over each image, which shares
/// a gradient out over side^2 positions: it starts larger, or halves would hold little of it.
Net scaling_net(int batch, int depth, int side);

/// What a configuration trains, its dropout left out; called `name`. Opens the data for its shapes.
Net config_net(const TrainConfig& config, const std::string& name);

}  // namespace nixie::benchmark
