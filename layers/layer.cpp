// AnyLayer's default, shape inference and the check of inputs.
#include "nixie/layers/layer.h"

namespace nixie {

AnyLayer::AnyLayer() : AnyLayer(Identity{}) {}

Forward Identity::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return x; };
}

Tensor placeholder(const Shape& shape, Dtype dtype) {
  return Tensor::make(Input{.name = "placeholder"}, {}, shape, dtype);
}

Shape output_shape(const Forward& forward, const Shape& in) {
  Trace trace;  // what the layer sets is dropped
  return forward(placeholder(in), Pass{.training = false}).shape();
}

void check_input(const Shape& in, int spatial, std::int64_t channels) {
  if (in.rank() == spatial + 2 && (channels == 0 || in[1] == channels)) return;
  static constexpr const char* kSpatial[] = {"", ", W", ", H, W", ", D, H, W"};
  check(false, "input is ", in, ", expected [N, ", channels == 0 ? "C" : std::to_string(channels), kSpatial[spatial],
        "]");
}

}  // namespace nixie
