// SqueezeNet 1.1: fire modules, which squeeze channels by 1x1 convolutions and expand them by 1x1 and 3x3 ones.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

Sequential fire(int squeezed, int expanded) {
  const ConcatBranches expand{
      .branches = {
          {"", Sequential{{"expand1x1", Conv2d{.out = expanded, .kernel = 1}}, {"expand1x1_activation", Relu{}}}},
          {"",
           Sequential{{"expand3x3", Conv2d{.out = expanded, .kernel = 3, .pad = 1}}, {"expand3x3_activation", Relu{}}}},
      }};
  return {{"squeeze", Conv2d{.out = squeezed, .kernel = 1}}, {"squeeze_activation", Relu{}}, {"", expand}};
}

}  // namespace

Sequential Squeezenet::layers() const {
  const MaxPool2d halve{.window = 3, .stride = 2, .ceil_mode = true};
  const Sequential features{
      Conv2d{.out = 64, .kernel = 3, .stride = 2},
      Relu{},
      halve,
      fire(16, 64),
      fire(16, 64),
      halve,
      fire(32, 128),
      fire(32, 128),
      halve,
      fire(48, 192),
      fire(48, 192),
      fire(64, 256),
      fire(64, 256),
  };
  const Sequential classifier{
      Dropout{.rate = dropout},
      Conv2d{.out = classes, .kernel = 1, .init = Init::normal(0.01f)},
      Relu{},
      GlobalAvgPool{},
  };
  return {{"features", features}, {"classifier", classifier}, Flatten{}};
}

}  // namespace nixie
