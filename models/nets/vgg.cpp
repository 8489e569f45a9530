// The VGG nets: 3x3 convolutions in five stages, with or without batch norm.
#include <array>

#include "nixie/models/nets/nets.h"

namespace nixie {
namespace {

// Convolutions per stage.
std::array<int, 5> stages(int depth) {
  switch (depth) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    default:
      return {2, 2, 4, 4, 4};
  }
}

}  // namespace

template <int depth, bool batch_norm>
Sequential Vgg<depth, batch_norm>::layers() const {
  Sequential features;
  int channels = 64;
  for (int convolutions : stages(depth)) {
    for (int i = 0; i < convolutions; ++i) {
      features.add(Conv2d{.out = channels, .kernel = 3, .pad = 1});
      if (batch_norm) features.add(BatchNorm{});
      features.add(Relu{});
    }
    features.add(MaxPool2d{.window = 2});
    channels = std::min(2 * channels, 512);
  }
  const Sequential classifier{
      Linear{.out = 4096},   Relu{}, Dropout{.rate = dropout}, Linear{.out = 4096}, Relu{}, Dropout{.rate = dropout},
      output_layer(classes),
  };
  return {{"features", features}, {"avgpool", AdaptiveAvgPool2d{.out = 7}}, Flatten{}, {"classifier", classifier}};
}

template struct Vgg<11>;
template struct Vgg<13>;
template struct Vgg<16>;
template struct Vgg<19>;
template struct Vgg<11, true>;
template struct Vgg<13, true>;
template struct Vgg<16, true>;
template struct Vgg<19, true>;

}  // namespace nixie
