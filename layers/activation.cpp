// The functions of activation layers.
#include "nixie/layers/activation.h"

#include "nixie/core/ops/elementwise.h"

namespace nixie {
namespace {

constexpr ElementwiseTraits kFloating{.result = ResultType::floating, .domain = {}};

// One op, so that a gradient keeps what it is of and no logistic function of that. The logistic function is 0 or 1 well
// before 1000, also in doubles: an infinity times 0 would be NaN.
const Elementwise silu_op{"silu",
                          [](auto x) {
                            const auto power = exp(-abs(x));
                            return max(x, -1000) * (select(x < 0, power, 1) / (1 + power));
                          },
                          [](Tensor g, Tensor, Tensor x) {
                            const Tensor share = sigmoid(x);
                            return Gradients{g * share * (1 + clip(x, -1000, 1000) * (1 - share))};
                          },
                          kFloating};

// One op for the same reason: products of an infinity and the slope 0 of a clipped factor would be NaN.
const Elementwise hard_swish_op{
    "hard_swish", [](auto x) { return max(x, -3) * (min(max(x + 3, 0), 6) * (1.0 / 6)); },
    [](Tensor g, Tensor, Tensor x) { return Gradients{g * where(x < -3, 0, where(x > 3, 1, x * (1.0 / 3) + 0.5))}; },
    kFloating};

}  // namespace

Forward Relu::build(const Shape&, Parameters&) const {
  return [slope = slope](const Tensor& x, const Pass&) { return relu(x, slope); };
}
Forward ReluClipped::build(const Shape&, Parameters&) const {
  return [cut = cut](const Tensor& x, const Pass&) { return minimum(relu(x), cut); };
}
Forward Sigmoid::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return sigmoid(x); };
}
Forward Tanh::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return tanh(x); };
}
Forward Softmax::build(const Shape& in, Parameters&) const {
  in.normal_axis(axis);  // throws where there is no such axis
  return [axis = axis](const Tensor& x, const Pass&) { return softmax(x, {axis}); };
}
Forward Elu::build(const Shape&, Parameters&) const {
  return [alpha = alpha](const Tensor& x, const Pass&) { return elu(x, alpha); };
}
Forward Gelu::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return gelu(x); };
}

Forward LeakyRelu::build(const Shape&, Parameters&) const {
  return [slope = slope](const Tensor& x, const Pass&) { return relu(x, slope); };
}
Forward Prelu::build(const Shape& in, Parameters& parameters) const {
  check(!per_channel || in.rank() >= 2, "input is ", in, ", expected [N, C, ...]");
  const Variable weight = parameters.make("weight", {per_channel ? in[1] : 1}, init);
  return [=](const Tensor& x, const Pass&) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
    if (x.rank() >= 2) sizes[1] = weight.shape()[0];
    return relu(x, reshape(weight, sizes));
  };
}
Forward Silu::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return silu_op(x); };
}
Forward HardSwish::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return hard_swish_op(x); };
}
Forward HardSigmoid::build(const Shape&, Parameters&) const {
  return [](const Tensor& x, const Pass&) { return clip(x + 3, 0.0, 6.0) * (1.0 / 6); };
}
Forward Softplus::build(const Shape&, Parameters&) const {
  return [beta = beta](const Tensor& x, const Pass&) {
    const Tensor scaled = beta * x, y = softplus(scaled) * (1 / beta);
    return beta > 1 ? where(is_finite(scaled), y, relu(x)) : y;  // x may be finite where the product is not
  };
}

}  // namespace nixie
