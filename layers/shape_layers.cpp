// What the shape layers build.
#include "nixie/layers/shape_layers.h"

namespace nixie {

Forward Flatten::build(const Shape&, Parameters&) const {
  return [first = first](const Tensor& x, Pass&) { return flatten(x, first); };
}

Forward ReshapeTo::build(const Shape&, Parameters&) const {
  return [sizes = sizes](const Tensor& x, Pass&) {
    std::vector<std::int64_t> all{x.shape()[0]};
    all.insert(all.end(), sizes.begin(), sizes.end());
    return reshape(x, all);
  };
}

}  // namespace nixie
