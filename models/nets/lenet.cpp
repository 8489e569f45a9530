// LeNet, as enlarged by the MNIST examples of later frameworks. The numbers beside are the sizes for 28x28 images.
#include "nixie/models/nets/nets.h"

namespace nixie {

Sequential Lenet::layers() const {
  return {
      Conv2d{.out = 32, .kernel = 5, .pad = 2},
      Relu{},
      MaxPool2d{.window = 2},  // 14
      Conv2d{.out = 64, .kernel = 5, .pad = 2},
      Relu{},
      MaxPool2d{.window = 2},  // 7
      Flatten{},
      Linear{.out = 512},
      Relu{},
      output_layer(classes),
  };
}

}  // namespace nixie
