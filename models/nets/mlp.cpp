// The multilayer perceptron.
#include "nixie/models/nets/nets.h"

namespace nixie {

Sequential Mlp::layers() const {
  Sequential net{Flatten{}};
  for (int size : hidden) net.add(Linear{.out = size}).add(Relu{});
  return net.add(output_layer(classes));
}

}  // namespace nixie
