// AlexNet. The numbers beside are the sizes for 224x224 images.
#include "nixie/models/nets/nets.h"

namespace nixie {

Sequential Alexnet::layers() const {
  const Sequential features{
      Conv2d{.out = 64, .kernel = 11, .stride = 4, .pad = 2},
      Relu{},
      MaxPool2d{.window = 3, .stride = 2},  // 27
      Conv2d{.out = 192, .kernel = 5, .pad = 2},
      Relu{},
      MaxPool2d{.window = 3, .stride = 2},  // 13
      Conv2d{.out = 384, .kernel = 3, .pad = 1},
      Relu{},
      Conv2d{.out = 256, .kernel = 3, .pad = 1},
      Relu{},
      Conv2d{.out = 256, .kernel = 3, .pad = 1},
      Relu{},
      MaxPool2d{.window = 3, .stride = 2},  // 6
  };
  const Sequential classifier{
      Dropout{.rate = dropout}, Linear{.out = 4096}, Relu{}, Dropout{.rate = dropout}, Linear{.out = 4096}, Relu{},
      output_layer(classes),
  };
  return {{"features", features}, {"avgpool", AdaptiveAvgPool2d{.out = 6}}, Flatten{}, {"classifier", classifier}};
}

}  // namespace nixie
