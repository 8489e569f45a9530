// OverFeat. The numbers beside are the sizes for 231x231 images.
#include "nixie/models/nets/nets.h"

namespace nixie {

Sequential Overfeat::layers() const {
  const Sequential features{
      Conv2d{.out = 96, .kernel = 11, .stride = 4},
      Relu{},
      MaxPool2d{.window = 2},  // 28
      Conv2d{.out = 256, .kernel = 5},
      Relu{},
      MaxPool2d{.window = 2},  // 12
      Conv2d{.out = 512, .kernel = 3, .pad = 1},
      Relu{},
      Conv2d{.out = 1024, .kernel = 3, .pad = 1},
      Relu{},
      Conv2d{.out = 1024, .kernel = 3, .pad = 1},
      Relu{},
      MaxPool2d{.window = 2},  // 6
  };
  const Sequential classifier{
      Dropout{.rate = dropout}, Linear{.out = 3072}, Relu{}, Dropout{.rate = dropout}, Linear{.out = 4096}, Relu{},
      output_layer(classes),
  };
  return {{"features", features}, Flatten{}, {"classifier", classifier}};
}

}  // namespace nixie
