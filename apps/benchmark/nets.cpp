// The list of nets.
#include "apps/benchmark/nets.h"

#include "models/nets.h"

namespace nixie::benchmark {
namespace {

/// Convolutions, each with batch norm and ReLU: two of 32 channels, one of 64.
Sequential cifar_bn() {
  return {
      Conv2d{.out = 32, .kernel = 3, .pad = 1},
      BatchNorm{},
      Relu{},
      Conv2d{.out = 32, .kernel = 3, .pad = 1},
      BatchNorm{},
      Relu{},
      MaxPool2d{.window = 2},  // 16
      Conv2d{.out = 64, .kernel = 3, .pad = 1},
      BatchNorm{},
      Relu{},
      MaxPool2d{.window = 2},  // 8
      Flatten{},
      Linear{.out = 10},
  };
}

}  // namespace

std::vector<Net> step_nets() {
  return {
      {"mlp", Mlp{}, {1, 28, 28}, 10, 128},
      {"lenet", Lenet{}, {1, 28, 28}, 10, 64},
      {"cifar_bn", cifar_bn(), {3, 32, 32}, 10, 64},
      {"alexnet", Alexnet{.dropout = 0}, {3, 224, 224}, 1000, 16},
  };
}

}  // namespace nixie::benchmark
