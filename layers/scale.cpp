// Builds Scale.
#include "nixie/layers/scale.h"

namespace nixie {

Forward Scale::build(const Shape& in, Parameters& parameters) const {
  const int at = in.normal_axis(axis);
  check(at > 0, "axis ", axis, " of input ", in, " is that of the samples, expected another");
  const std::int64_t size = in[at];
  std::vector<std::int64_t> stored(static_cast<std::size_t>(trailing) + 1, 1);
  stored[0] = size;
  const Variable weight = parameters.make(parameter, Shape(stored), init);
  std::optional<Variable> offset;
  if (bias) offset = parameters.make("bias", {size}, bias_init);
  return [=, axis = axis](const Tensor& x, Pass&) {
    const int along = x.shape().normal_axis(axis);
    check(x.shape()[along] == size, "input is ", x.shape(), ", expected ", size, " along axis ", axis);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
    sizes[static_cast<std::size_t>(along)] = size;
    const Tensor y = x * reshape(weight, sizes);
    return offset ? y + reshape(*offset, sizes) : y;
  };
}

}  // namespace nixie
