// The residual nets: four stages of basic or bottleneck blocks.
#include <array>

#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

Conv2d conv(int out, int kernel, int stride = 1) {
  return {.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .bias = false};
}

// A block's shortcut: what came in, brought to its shape where that differs.
NamedLayer shortcut(bool same, int out, int stride) {
  if (same) return Identity{};
  return {"downsample", Sequential{conv(out, 1, stride), BatchNorm{}}};
}

Sequential basic(int channels, int stride, bool same) {
  const Sequential residual{
      {"conv1", conv(channels, 3, stride)}, {"bn1", BatchNorm{}}, {"relu", Relu{}},
      {"conv2", conv(channels, 3)},         {"bn2", BatchNorm{}},
  };
  return {{"", SumBranches{{{"", residual}, shortcut(same, channels, stride)}}}, Relu{}};
}

Sequential bottleneck(int channels, int stride, bool same) {
  const Sequential residual{
      {"conv1", conv(channels, 1)},         {"bn1", BatchNorm{}}, {"relu1", Relu{}},
      {"conv2", conv(channels, 3, stride)}, {"bn2", BatchNorm{}}, {"relu2", Relu{}},
      {"conv3", conv(4 * channels, 1)},     {"bn3", BatchNorm{}},
  };
  return {{"", SumBranches{{{"", residual}, shortcut(same, 4 * channels, stride)}}}, Relu{}};
}

Sequential stage(int depth, int blocks, int channels, int stride) {
  Sequential layers;
  for (int i = 0; i < blocks; ++i) {
    const bool same = i > 0 || (depth < 50 && stride == 1);
    layers.add((depth < 50 ? basic : bottleneck)(channels, i == 0 ? stride : 1, same));
  }
  return layers;
}

}  // namespace

template <int depth>
Sequential Resnet<depth>::layers() const {
  const std::array<int, 4> blocks = depth == 18    ? std::array{2, 2, 2, 2}
                                    : depth == 101 ? std::array{3, 4, 23, 3}
                                                   : std::array{3, 4, 6, 3};
  return {
      {"conv1", conv(64, 7, 2)},
      {"bn1", BatchNorm{}},
      {"relu", Relu{}},
      {"maxpool", MaxPool2d{.window = 3, .stride = 2, .pad = 1}},
      {"layer1", stage(depth, blocks[0], 64, 1)},
      {"layer2", stage(depth, blocks[1], 128, 2)},
      {"layer3", stage(depth, blocks[2], 256, 2)},
      {"layer4", stage(depth, blocks[3], 512, 2)},
      {"avgpool", GlobalAvgPool{}},
      Flatten{},
      {"fc", output_layer(classes)},
  };
}

template struct Resnet<18>;
template struct Resnet<34>;
template struct Resnet<50>;
template struct Resnet<101>;

}  // namespace nixie
