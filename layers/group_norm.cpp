// Layer norm is `standardize`; group norm has the statistics of each channel first.
#include "nixie/layers/group_norm.h"

namespace nixie {
namespace {

// A parameter with the sizes of axes from `first` on, to be broadcast to a value of this rank.
Tensor along(const Variable& parameter, int first, int rank) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank), 1);
  std::copy(parameter.shape().begin(), parameter.shape().end(), sizes.begin() + first);
  return reshape(parameter, sizes);
}

// Values [N, C, 1...] of channels: their means over groups, for each channel again.
Tensor mean_of_groups(const Tensor& x, int groups) {
  const Shape& shape = x.shape();
  const Tensor parts = reshape(x, {shape[0], groups, shape[1] / groups});
  return reshape(broadcast_to(mean(parts, {2}), parts.shape()), shape);
}

}  // namespace

Forward LayerNorm::build(const Shape& in, Parameters& parameters) const {
  const int rank = in.rank(), end = last < 0 ? rank : last + 1;
  check(first < rank && end <= rank, "input is ", in, ", which has no axis ", first < rank ? last : first,
        " to normalise");
  check(first < end, "the last axis to normalise, ", last, ", is before the first, ", first);
  const Shape features(std::vector<std::int64_t>(in.begin() + first, in.begin() + end));
  std::optional<Variable> weight, bias;
  if (affine) {
    weight = parameters.make("weight", features, init);
    bias = parameters.make("bias", features, bias_init);
  }
  return [=, first = first, eps = eps](const Tensor& x, const Pass&) {
    check(x.rank() == rank && std::equal(features.begin(), features.end(), x.shape().begin() + first), "input is ",
          x.shape(), ", expected ", features, " from axis ", first, " on, of ", rank, " axes");
    Axes axes;
    for (int axis = first; axis < end; ++axis) axes.push_back(axis);
    const Tensor y = standardize(x, axes, eps);
    return weight ? y * along(*weight, first, rank) + along(*bias, first, rank) : y;
  };
}

// With mean_c and variance_c of the positions of a channel of a sample, a group's mean is the mean of mean_c, and its
// variance the mean of variance_c and that of (mean_c - mean)^2. So positions are read for sums over a channel and for
// the result
//   (x - mean_c) a + (mean_c - mean) a + bias,  a = weight / sqrt(variance + eps),
// whose gradient needs two sums over a channel; all else is a few numbers for each channel.
Forward GroupNorm::build(const Shape& in, Parameters& parameters) const {
  check(in.rank() >= 2, "input is ", in, ", expected [N, C, ...]");
  check(in[1] % groups == 0, in[1], " channels do not split into ", groups, " groups");
  const Shape channels{in[1]};
  std::optional<Variable> weight, bias;
  if (affine) {
    weight = parameters.make("weight", channels, init);
    bias = parameters.make("bias", channels, bias_init);
  }
  return [=, groups = groups, eps = eps](const Tensor& x, const Pass&) {
    check(x.rank() >= 2 && x.shape()[1] == channels[0], "input is ", x.shape(), ", expected [N, ", channels[0],
          ", ...]");
    Axes positions = all_axes(x.shape());
    positions.erase(positions.begin(), positions.begin() + 2);
    const Tensor own_mean = mean(x, positions), apart = own_mean - mean_of_groups(own_mean, groups),
                 group_variance =
                     mean_of_groups(variance(x, positions), groups) + mean_of_groups(square(apart), groups),
                 scale = rsqrt(group_variance + eps);
    if (!weight) return (x - own_mean) * scale + apart * scale;
    const Tensor a = scale * along(*weight, 1, x.rank());
    return (x - own_mean) * a + (apart * a + along(*bias, 1, x.rank()));
  };
}

}  // namespace nixie
