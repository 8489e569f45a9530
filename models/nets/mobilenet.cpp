// MobileNet v1 and v2: depthwise 3x3 convolutions between 1x1 ones.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

Conv2d conv(int out, int kernel, int stride = 1, int groups = 1) {
  return {.out = out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .groups = groups, .bias = false};
}

Sequential conv_relu6(int out, int kernel, int stride = 1, int groups = 1) {
  return {conv(out, kernel, stride, groups), BatchNorm{}, ReluClipped{.cut = 6}};
}

// 1x1 to `expansion` times the channels, depthwise 3x3, 1x1 to the channels that come out.
NamedLayer inverted_residual(int in, int out, int stride, int expansion) {
  const int hidden = expansion * in;
  Sequential layers;
  if (expansion != 1) layers.add(conv_relu6(hidden, 1));
  layers.add(conv_relu6(hidden, 3, stride, hidden)).add(conv(out, 1)).add(BatchNorm{});
  if (stride == 1 && in == out) return SumBranches{{{"", Identity{}}, {"conv", layers}}};
  return Sequential{{"conv", layers}};
}

}  // namespace

Sequential MobilenetV1::layers() const {
  struct Block {
    int out, stride, count;
  };
  constexpr Block kBlocks[] = {{64, 1, 1},  {128, 2, 1}, {128, 1, 1},  {256, 2, 1}, {256, 1, 1},
                               {512, 2, 1}, {512, 1, 5}, {1024, 2, 1}, {1024, 1, 1}};
  Sequential features{conv(32, 3, 2), BatchNorm{}, Relu{}};
  int channels = 32;
  for (const auto& [out, stride, count] : kBlocks)
    for (int i = 0; i < count; ++i) {
      features.add(conv(channels, 3, stride, channels)).add(BatchNorm{}).add(Relu{});
      features.add(conv(out, 1)).add(BatchNorm{}).add(Relu{});
      channels = out;
    }
  return {
      {"features", features},
      {"avgpool", GlobalAvgPool{}},
      Flatten{},
      {"dropout", Dropout{.rate = dropout}},
      {"classifier", output_layer(classes)},
  };
}

Sequential MobilenetV2::layers() const {
  struct Block {
    int expansion, out, count, stride;
  };
  constexpr Block kBlocks[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  Sequential features{conv_relu6(32, 3, 2)};
  int channels = 32;
  for (const auto& [expansion, out, count, stride] : kBlocks)
    for (int i = 0; i < count; ++i) {
      features.add(inverted_residual(channels, out, i == 0 ? stride : 1, expansion));
      channels = out;
    }
  features.add(conv_relu6(1280, 1));
  const Sequential classifier{Dropout{.rate = dropout}, output_layer(classes)};
  return {{"features", features}, {"avgpool", GlobalAvgPool{}}, Flatten{}, {"classifier", classifier}};
}

}  // namespace nixie
