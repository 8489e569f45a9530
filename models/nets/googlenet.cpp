// GoogLeNet v1: a stem, nine inception blocks, a linear layer.
#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

Sequential conv_relu(int out, int kernel, int stride = 1, int pad = 0) {
  return {{"conv", Conv2d{.out = out, .kernel = kernel, .stride = stride, .pad = pad}}, Relu{}};
}

// Output channels: 1x1; 3x3 after a 1x1; 5x5 after a 1x1; 1x1 after pooling.
ConcatBranches inception(int one, int reduce3, int three, int reduce5, int five, int pooled) {
  return {.branches = {
              {"branch1", conv_relu(one, 1)},
              {"branch2", Sequential{conv_relu(reduce3, 1), conv_relu(three, 3, 1, 1)}},
              {"branch3", Sequential{conv_relu(reduce5, 1), conv_relu(five, 5, 1, 2)}},
              {"branch4", Sequential{MaxPool2d{.window = 3, .stride = 1, .pad = 1}, conv_relu(pooled, 1)}},
          }};
}

}  // namespace

Sequential Googlenet::layers() const {
  const MaxPool2d halve{.window = 3, .stride = 2, .pad = 1};
  return {
      {"conv1", conv_relu(64, 7, 2, 3)},
      {"maxpool1", halve},
      {"conv2", conv_relu(64, 1)},
      {"conv3", conv_relu(192, 3, 1, 1)},
      {"maxpool2", halve},
      {"inception3a", inception(64, 96, 128, 16, 32, 32)},
      {"inception3b", inception(128, 128, 192, 32, 96, 64)},
      {"maxpool3", halve},
      {"inception4a", inception(192, 96, 208, 16, 48, 64)},
      {"inception4b", inception(160, 112, 224, 24, 64, 64)},
      {"inception4c", inception(128, 128, 256, 24, 64, 64)},
      {"inception4d", inception(112, 144, 288, 32, 64, 64)},
      {"inception4e", inception(256, 160, 320, 32, 128, 128)},
      {"maxpool4", halve},
      {"inception5a", inception(256, 160, 320, 32, 128, 128)},
      {"inception5b", inception(384, 192, 384, 48, 128, 128)},
      {"avgpool", GlobalAvgPool{}},
      Flatten{},
      {"dropout", Dropout{.rate = dropout}},
      {"fc", output_layer(classes)},
  };
}

}  // namespace nixie
