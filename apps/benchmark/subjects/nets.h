// The nets that are timed: small nets, convnet-benchmarks' and newer nets, and that of any configuration. Peers get
// them as data, so that their programs need no list of nets (apps/peers/peer.py).
#pragma once

#include <nlohmann/json.hpp>
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
  int cpu_batch;  ///< small enough to take seconds on a CPU
  AnyLoss loss = CrossEntropy{};
  OptimizerOptions training = {};
  RunLength run = {};          ///< for the training schedule
  double output_gradient = 1;  ///< bprop starts from uniform values in [0, output_gradient)
  bool bytes = false;          ///< images are stored as bytes and normalised by the net
};

/// apps/peers/torch_steps.py holds the same list.
std::vector<Net> step_nets();

/// SGD with rate 0.001, momentum 0.9 and weight decay 5e-4, used by the nets below and the peers'.
OptimizerOptions common_training();

/// AlexNet, OverFeat (fast), VGG-A, VGG-E and GoogLeNet v1 of convnet-benchmarks: biases, no dropout, ReLU everywhere
/// but after the last layer. Then nets that people train today as torchvision defines them, MobileNet v1, the net
/// of configs/cifar10.yaml and a wide multilayer perceptron; none has dropout. `nervana`: the first five in
/// nervanagpu's variant, without biases, with ReLU after the last layer and hidden linear layers of 3072.
std::vector<Net> conv_nets(bool nervana);

/// `depth` 3x3 convolutions with 64 channels over images of side x side, then the mean over each image, which divides
/// the gradient among side^2 positions: so its output gradient is larger, to stay in the range of halves.
Net scaling_net(int batch, int depth, int side);

/// A configuration's net without dropout, called `name`. Opens the data for its shapes.
Net config_net(const TrainConfig& config, const std::string& name);

/// A list of layers as JSON: every field of every layer, with the configuration's names.
nlohmann::json layers_json(const AnyModel& model);

/// A request for the net in this precision; the caller adds the work and the number of runs.
nlohmann::json peer_request(const Net& net, const std::string& precision, int batch);

}  // namespace nixie::benchmark
