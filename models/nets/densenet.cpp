// DenseNet-121: every layer of a block reads the outputs of all layers before it.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

constexpr int kGrowth = 32, kBottleneck = 4 * kGrowth;

Conv2d conv(int out, int kernel) { return {.out = out, .kernel = kernel, .pad = kernel / 2, .bias = false}; }

// The layer's input, and the channels that the layer adds to it.
ConcatBranches dense_layer() {
  const Sequential added{
      {"norm1", BatchNorm{}}, {"relu1", Relu{}}, {"conv1", conv(kBottleneck, 1)},
      {"norm2", BatchNorm{}}, {"relu2", Relu{}}, {"conv2", conv(kGrowth, 3)},
  };
  return {.branches = {Identity{}, {"", added}}};
}

Sequential transition(int out) {
  return {{"norm", BatchNorm{}}, {"relu", Relu{}}, {"conv", conv(out, 1)}, {"pool", AvgPool2d{.window = 2}}};
}

}  // namespace

Sequential Densenet121::layers() const {
  Sequential features{
      {"conv0", Conv2d{.out = 64, .kernel = 7, .stride = 2, .pad = 3, .bias = false}},
      {"norm0", BatchNorm{}},
      {"relu0", Relu{}},
      {"pool0", MaxPool2d{.window = 3, .stride = 2, .pad = 1}},
  };
  int channels = 64, number = 0;
  for (const int layers : {6, 12, 24, 16}) {
    if (++number > 1) features.add({fmt::format("transition{}", number - 1), transition(channels /= 2)});
    Sequential block;
    for (int i = 1; i <= layers; ++i) block.add({fmt::format("denselayer{}", i), dense_layer()});
    features.add({fmt::format("denseblock{}", number), block});
    channels += layers * kGrowth;
  }
  features.add({"norm5", BatchNorm{}});
  return {
      {"features", features}, Relu{}, {"avgpool", GlobalAvgPool{}}, Flatten{}, {"classifier", output_layer(classes)},
  };
}

}  // namespace nixie
