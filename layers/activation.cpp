// The functions of activation layers.
#include "nixie/layers/activation.h"

namespace nixie {

Forward Relu::build(const Shape&, Parameters&) const {
  return [slope = slope](const Tensor& x, Pass&) { return relu(x, slope); };
}
Forward ReluClipped::build(const Shape&, Parameters&) const {
  return [cut = cut](const Tensor& x, Pass&) { return minimum(relu(x), cut); };
}
Forward Sigmoid::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, Pass&) { return sigmoid(x); };
}
Forward Tanh::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, Pass&) { return tanh(x); };
}
Forward Softmax::build(const Shape& in, Parameters&) const {
  in.normal_axis(axis);  // throws where there is no such axis
  return [axis = axis](const Tensor& x, Pass&) { return softmax(x, {axis}); };
}
Forward Elu::build(const Shape&, Parameters&) const {
  return [alpha = alpha](const Tensor& x, Pass&) { return elu(x, alpha); };
}
Forward Gelu::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, Pass&) { return gelu(x); };
}

Forward LeakyRelu::build(const Shape&, Parameters&) const {
  return [slope = slope](const Tensor& x, Pass&) { return relu(x, slope); };
}
Forward Prelu::build(const Shape& in, Parameters& parameters) const {
  check(!per_channel || in.rank() >= 2, "input is ", in, ", expected [N, C, ...]");
  const Variable weight = parameters.make("weight", {per_channel ? in[1] : 1}, init);
  return [=](const Tensor& x, Pass&) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
    if (x.rank() >= 2) sizes[1] = weight.shape()[0];
    return relu(x, reshape(weight, sizes));
  };
}
Forward Silu::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, Pass&) { return x * sigmoid(x); };
}
Forward HardSwish::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, Pass&) { return x * clip(x + 3, 0, 6) * (1.0 / 6); };
}
Forward Softplus::build(const Shape&, Parameters&) const {
  return [beta = beta](const Tensor& x, Pass&) { return softplus(beta * x) * (1 / beta); };
}

}  // namespace nixie
