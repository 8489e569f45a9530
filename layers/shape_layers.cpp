// Builds the shape layers.
#include "nixie/layers/shape_layers.h"

#include <algorithm>

namespace nixie {
namespace {

/// x with the `count` positions next to each edge repeated beyond it, in reverse.
Tensor reflected(const Tensor& x, int axis, int count) {
  if (count == 0) return x;
  const std::int64_t size = x.shape()[axis];
  check(count < size, "pad ", count, " reflects more than input ", x.shape(), " has");
  const auto part = [&](std::int64_t from, std::int64_t to) {
    return flip(slice(x, Index::along(axis, Index::range(from, to))), {axis});
  };
  return concat({part(1, count + 1), x, part(size - 1 - count, size - 1)}, axis);
}

}  // namespace

Forward Flatten::build(const Shape&, Parameters&) const {
  return [first = first](const Tensor& x, const Pass&) { return flatten(x, first); };
}

Forward ReshapeTo::build(const Shape&, Parameters&) const {
  return [sizes = sizes](const Tensor& x, const Pass&) {
    std::vector<std::int64_t> all{x.shape()[0]};
    all.insert(all.end(), sizes.begin(), sizes.end());
    return reshape(x, all);
  };
}

Forward PadSides::build(const Shape& in, Parameters&) const {
  check(in.rank() > 2, "input is ", in, ", expected [N, C, spatial...]");
  return [sides = pad.expand(in.rank() - 2, "pad"), is_zero = mode == "zero"](const Tensor& x, const Pass&) {
    std::vector<std::int64_t> both = {0, 0};
    both.insert(both.end(), sides.begin(), sides.end());
    if (is_zero) return nixie::pad(x, both, both);
    Tensor y = x;
    for (std::size_t i = 0; i < sides.size(); ++i) y = reflected(y, static_cast<int>(i) + 2, sides[i]);
    return y;
  };
}

namespace {

/// Positions [low, high) along an axis of the input that is not the samples'.
Forward range_of(int axis, std::int64_t low, std::int64_t high) {
  return [=](const Tensor& x, const Pass&) { return slice(x, Index::along(axis, Index::range(low, high))); };
}

int inner_axis(const Shape& in, int axis) {
  const int found = in.normal_axis(axis);
  check(found > 0, "axis ", axis, " of input ", in, " is that of the samples, expected another");
  return found;
}

}  // namespace

Forward SliceRange::build(const Shape& in, Parameters&) const {
  const int at = inner_axis(in, axis);
  const auto position = [size = in[at]](int i) { return i < 0 ? i + size : std::int64_t{i}; };
  const std::int64_t low = position(from), high = to ? position(*to) : in[at];
  check(0 <= low && low < high && high <= in[at], "positions ", low, " to before ", high, " of axis ", axis,
        ", expected some of the ", in[at], " of input ", in);
  return range_of(at, low, high);
}

Forward Chunk::build(const Shape& in, Parameters&) const {
  const int at = inner_axis(in, axis);
  check(part < of, "part is ", part, ", expected a number below of, ", of);
  check(in[at] % of == 0, "axis ", axis, " of input ", in, " does not split into ", of, " parts");
  const std::int64_t size = in[at] / of;
  return range_of(at, part * size, (part + 1) * size);
}

Forward PermuteAxes::build(const Shape& in, Parameters&) const {
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  const bool names_each = std::ssize(order) == in.rank() &&
                          std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
                          sorted.back() == in.rank() - 1;
  check(names_each && order[0] == 0, "order is ", field_text(order), " for input ", in,
        ", expected 0 and then axes 1 to ", in.rank() - 1, ", each once");
  return [axes = Axes(order)](const Tensor& x, const Pass&) { return permute(x, axes); };
}

Forward PixelShuffle::build(const Shape& in, Parameters&) const {
  check(in.rank() > 2, "input is ", in, ", expected [N, C, spatial...]");
  std::int64_t block = 1;
  for (int i = 2; i < in.rank(); ++i) block *= factor;
  check(in[1] % block == 0, in[1], " channels do not split into blocks of ", block);
  return [factor = factor, channels = in[1] / block](const Tensor& x, const Pass&) {
    const int spatial = x.rank() - 2;
    std::vector<std::int64_t> apart = {x.shape()[0], channels}, larger = apart;
    apart.insert(apart.end(), static_cast<std::size_t>(spatial), factor);
    apart.insert(apart.end(), x.shape().begin() + 2, x.shape().end());
    Axes order = {0, 1};
    for (int i = 2; i < x.rank(); ++i) {
      order.push_back(i + spatial);
      order.push_back(i);
      larger.push_back(factor * x.shape()[i]);
    }
    return reshape(permute(reshape(x, apart), order), larger);
  };
}

Forward ChannelShuffle::build(const Shape& in, Parameters&) const {
  check(in.rank() >= 2, "input is ", in, ", expected [N, C, ...]");
  check(in[1] % groups == 0, in[1], " channels do not split into ", groups, " groups");
  return [groups = groups](const Tensor& x, const Pass&) {
    std::vector<std::int64_t> split = {x.shape()[0], groups, x.shape()[1] / groups};
    split.insert(split.end(), x.shape().begin() + 2, x.shape().end());
    return reshape(transpose(reshape(x, split), 1, 2), x.shape());
  };
}

}  // namespace nixie
