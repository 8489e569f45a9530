// Builds the shape layers.
#include "nixie/layers/shape_layers.h"

namespace nixie {
namespace {

/// x with the `count` positions next to each edge repeated beyond it, in reverse.
Tensor reflected(const Tensor& x, int axis, int count) {
  if (count == 0) return x;
  const std::int64_t size = x.shape()[axis];
  check(count < size, "pad ", count, " reflects more than input ", x.shape(), " has");
  const auto part = [&](std::int64_t from, std::int64_t to) {
    std::vector<Index> indices(static_cast<std::size_t>(x.rank()), Index::all());
    indices[static_cast<std::size_t>(axis)] = Index::range(from, to);
    return flip(slice(x, indices), {axis});
  };
  return concat({part(1, count + 1), x, part(size - 1 - count, size - 1)}, axis);
}

}  // namespace

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

Forward PadSides::build(const Shape& in, Parameters&) const {
  check(in.rank() > 2, "input is ", in, ", expected [N, C, spatial...]");
  return [sides = pad.expand(in.rank() - 2, "pad"), is_zero = mode == "zero"](const Tensor& x, Pass&) {
    std::vector<std::int64_t> both = {0, 0};
    both.insert(both.end(), sides.begin(), sides.end());
    if (is_zero) return nixie::pad(x, both, both);
    Tensor y = x;
    for (std::size_t i = 0; i < sides.size(); ++i) y = reflected(y, static_cast<int>(i) + 2, sides[i]);
    return y;
  };
}

Forward ChannelShuffle::build(const Shape& in, Parameters&) const {
  check(in.rank() >= 2, "input is ", in, ", expected [N, C, ...]");
  check(in[1] % groups == 0, in[1], " channels do not split into ", groups, " groups");
  return [groups = groups](const Tensor& x, Pass&) {
    std::vector<std::int64_t> split = {x.shape()[0], groups, x.shape()[1] / groups};
    split.insert(split.end(), x.shape().begin() + 2, x.shape().end());
    return reshape(transpose(reshape(x, split), 1, 2), x.shape());
  };
}

}  // namespace nixie
