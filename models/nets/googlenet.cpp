// GoogLeNet v1: a stem, nine inception blocks, a linear layer; the published net and torchvision's with batch norm.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

// Output channels of an inception block: 1x1; 3x3 after a 1x1; a larger window after a 1x1; 1x1 after pooling.
struct Inception {
  int one, reduce3, three, reduce5, five, pooled;
};
constexpr Inception k3a{64, 96, 128, 16, 32, 32}, k3b{128, 128, 192, 32, 96, 64}, k4a{192, 96, 208, 16, 48, 64},
    k4b{160, 112, 224, 24, 64, 64}, k4c{128, 128, 256, 24, 64, 64}, k4d{112, 144, 288, 32, 64, 64},
    k4e{256, 160, 320, 32, 128, 128}, k5a{256, 160, 320, 32, 128, 128}, k5b{384, 192, 384, 48, 128, 128};

// A convolution in one of the two nets.
using MakeConv = Sequential (*)(int out, int kernel, int stride, int pad);

Sequential conv_relu(int out, int kernel, int stride, int pad) {
  return {{"conv", Conv2d{.out = out, .kernel = kernel, .stride = stride, .pad = pad}}, Relu{}};
}

Sequential conv_bn_relu(int out, int kernel, int stride, int pad) {
  return {{"conv", Conv2d{.out = out, .kernel = kernel, .stride = stride, .pad = pad, .bias = false}},
          {"bn", BatchNorm{.eps = 1e-3}},
          Relu{}};
}

ConcatBranches inception(const Inception& out, MakeConv conv, int large) {
  return {.branches = {
              {"branch1", conv(out.one, 1, 1, 0)},
              {"branch2", Sequential{conv(out.reduce3, 1, 1, 0), conv(out.three, 3, 1, 1)}},
              {"branch3", Sequential{conv(out.reduce5, 1, 1, 0), conv(out.five, large, 1, large / 2)}},
              {"branch4", Sequential{MaxPool2d{.window = 3, .stride = 1, .pad = 1}, conv(out.pooled, 1, 1, 0)}},
          }};
}

// `large`: the window of the third branch.
Sequential googlenet(MakeConv conv, int large, const MaxPool2d& halve, const MaxPool2d& last_halve, double dropout,
                     int classes) {
  const auto block = [&](const Inception& out) { return inception(out, conv, large); };
  return {
      {"conv1", conv(64, 7, 2, 3)},          {"maxpool1", halve},           {"conv2", conv(64, 1, 1, 0)},
      {"conv3", conv(192, 3, 1, 1)},         {"maxpool2", halve},           {"inception3a", block(k3a)},
      {"inception3b", block(k3b)},           {"maxpool3", halve},           {"inception4a", block(k4a)},
      {"inception4b", block(k4b)},           {"inception4c", block(k4c)},   {"inception4d", block(k4d)},
      {"inception4e", block(k4e)},           {"maxpool4", last_halve},      {"inception5a", block(k5a)},
      {"inception5b", block(k5b)},           {"avgpool", GlobalAvgPool{}},  Flatten{},
      {"dropout", Dropout{.rate = dropout}}, {"fc", output_layer(classes)},
  };
}

}  // namespace

Sequential Googlenet::layers() const {
  const MaxPool2d halve{.window = 3, .stride = 2, .pad = 1};
  return googlenet(conv_relu, 5, halve, halve, dropout, classes);
}

// torchvision's third branch has a 3x3 window, its poolings no padding.
Sequential GooglenetBn::layers() const {
  return googlenet(conv_bn_relu, 3, {.window = 3, .stride = 2, .ceil_mode = true}, {.window = 2, .ceil_mode = true},
                   dropout, classes);
}

}  // namespace nixie
