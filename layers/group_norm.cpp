// Builds both layers: `standardize`, then a weight and a bias.
#include "nixie/layers/group_norm.h"

namespace nixie {
namespace {

Axes axes_from(const Shape& shape, int first) {
  Axes axes = all_axes(shape);
  axes.erase(axes.begin(), axes.begin() + first);
  return axes;
}

}  // namespace

Forward LayerNorm::build(const Shape& in, Parameters& parameters) const {
  check(first < in.rank(), "input is ", in, ", which has no axis ", first, " to normalise");
  const Shape features(std::vector<std::int64_t>(in.begin() + first, in.end()));
  std::optional<Variable> weight, bias;
  if (affine) {
    weight = parameters.make("weight", features, init);
    bias = parameters.make("bias", features, bias_init);
  }
  return [=, first = first, eps = static_cast<float>(eps)](const Tensor& x, Pass&) {
    check(
        x.rank() == first + features.rank() && std::equal(features.begin(), features.end(), x.shape().begin() + first),
        "input is ", x.shape(), ", expected it to end in ", features);
    const Tensor y = standardize(x, axes_from(x.shape(), first), eps);
    return weight ? y * *weight + *bias : y;
  };
}

Forward GroupNorm::build(const Shape& in, Parameters& parameters) const {
  check(in.rank() >= 2, "input is ", in, ", expected [N, C, ...]");
  check(in[1] % groups == 0, in[1], " channels do not split into ", groups, " groups");
  const Shape channels{in[1]};
  std::optional<Variable> weight, bias;
  if (affine) {
    weight = parameters.make("weight", channels, init);
    bias = parameters.make("bias", channels, bias_init);
  }
  return [=, groups = groups, eps = static_cast<float>(eps)](const Tensor& x, Pass&) {
    check(x.rank() >= 2 && x.shape()[1] == channels[0], "input is ", x.shape(), ", expected [N, ", channels[0],
          ", ...]");
    std::vector<std::int64_t> split = {x.shape()[0], groups, x.shape()[1] / groups};
    split.insert(split.end(), x.shape().begin() + 2, x.shape().end());
    const Tensor parts = reshape(x, split);
    const Tensor y = reshape(standardize(parts, axes_from(parts.shape(), 2), eps), x.shape());
    std::vector<std::int64_t> per_channel(static_cast<std::size_t>(x.rank()), 1);
    per_channel[1] = channels[0];
    return weight ? y * reshape(*weight, per_channel) + reshape(*bias, per_channel) : y;
  };
}

}  // namespace nixie
