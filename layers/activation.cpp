// What activation layers build: nothing but the function.
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

}  // namespace nixie
