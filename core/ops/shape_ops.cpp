// Leaves, views and indexing: shape rules and gradients.
#include <algorithm>
#include <numeric>

#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

Tensor full(const Shape& shape, const Tensor& value, Dtype dtype) { return broadcast_to(cast(value, dtype), shape); }
Tensor zeros(const Shape& shape, Dtype dtype) {
  return broadcast_to(Tensor::make(Constant{.value = 0, .weak = false}, {}, {}, dtype), shape);
}
Tensor ones(const Shape& shape, Dtype dtype) {
  return broadcast_to(Tensor::make(Constant{.value = 1, .weak = false}, {}, {}, dtype), shape);
}
Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype()); }
Tensor ones_like(const Tensor& x) { return ones(x.shape(), x.dtype()); }

Tensor coordinate(const Shape& shape, int axis) {
  return Tensor::make(Coordinate{shape.normal_axis(axis)}, {}, shape, Dtype::i32);
}
Tensor arange(std::int64_t size) { return coordinate({size}, 0); }

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  check(broadcast(x.shape(), shape) == shape, "shape ", x.shape(), " does not broadcast to ", shape);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(shape.rank() - x.rank()), 1);
  sizes.insert(sizes.end(), x.shape().begin(), x.shape().end());
  const Tensor same_rank = reshape(x, sizes);
  return same_rank.shape() == shape ? same_rank : Tensor::make(Expand{}, {same_rank}, shape, x.dtype());
}
Gradients gradient(const Expand&, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return {sum_to(g, x[0].shape())};
}

Tensor reshape(const Tensor& x, const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> known = sizes;
  const auto free = std::find(known.begin(), known.end(), -1);
  if (free != known.end()) {
    *free = 1;
    const std::int64_t rest = Shape(known).size();
    check(rest > 0 && x.shape().size() % rest == 0, "reshape: ", x.shape(), " does not fill ",
          fmt::format("[{}]", fmt::join(sizes, ", ")));
    *free = x.shape().size() / rest;
  }
  Shape shape(std::move(known));
  check(shape.size() == x.shape().size(), "reshape: ", x.shape(), " has ", x.shape().size(), " elements, ", shape,
        " has ", shape.size());
  return shape == x.shape() ? x : Tensor::make(Reshape{}, {x}, std::move(shape), x.dtype());
}
Gradients gradient(const Reshape&, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return {reshape(g, x[0].shape())};
}

Tensor expand_dims(const Tensor& x, const Axes& axes) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()) + axes.size(), 0);
  for (int axis : Shape(sizes).normal_axes(axes)) sizes[static_cast<std::size_t>(axis)] = 1;
  auto next = x.shape().begin();
  const Axes inserted = Shape(std::vector<std::int64_t>(sizes.size(), 0)).normal_axes(axes);
  for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis)
    if (!std::binary_search(inserted.begin(), inserted.end(), axis)) sizes[static_cast<std::size_t>(axis)] = *next++;
  return reshape(x, sizes);
}
Tensor squeeze(const Tensor& x, const Axes& axes) {
  const Axes dropped = x.shape().normal_axes(axes);
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!std::binary_search(dropped.begin(), dropped.end(), axis)) {
      sizes.push_back(x.shape()[axis]);
    } else {
      check(x.shape()[axis] == 1, "squeeze: axis ", axis, " of ", x.shape(), " has size ", x.shape()[axis],
            ", expected 1");
    }
  }
  return reshape(x, sizes);
}
Tensor flatten(const Tensor& x, int first) {
  check(first >= 0 && first <= x.rank(), "flatten: axis ", first, " is out of range for shape ", x.shape());
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().begin() + first);
  sizes.push_back(std::accumulate(x.shape().begin() + first, x.shape().end(), std::int64_t{1}, std::multiplies<>{}));
  return reshape(x, sizes);
}

Tensor permute(const Tensor& x, const Axes& order) {
  check(x.shape().normal_axes(order).size() == static_cast<std::size_t>(x.rank()), "permute: ", order.size(),
        " axes for shape ", x.shape());
  std::vector<std::int64_t> sizes;
  Permute op;
  for (int axis : order) {
    op.order.push_back(x.shape().normal_axis(axis));
    sizes.push_back(x.shape()[axis]);
  }
  if (std::is_sorted(op.order.begin(), op.order.end())) return x;
  return Tensor::make(std::move(op), {x}, Shape(std::move(sizes)), x.dtype());
}
Gradients gradient(const Permute& op, const Tensor& g, const Tensor&, const std::vector<Tensor>&) {
  Axes inverse(op.order.size());
  for (std::size_t i = 0; i < op.order.size(); ++i)
    inverse[static_cast<std::size_t>(op.order[i])] = static_cast<int>(i);
  return {permute(g, inverse)};
}
Tensor transpose(const Tensor& x) {
  Axes order = all_axes(x.shape());
  std::reverse(order.begin(), order.end());
  return permute(x, order);
}
Tensor transpose(const Tensor& x, int a, int b) {
  Axes order = all_axes(x.shape());
  std::swap(order[static_cast<std::size_t>(x.shape().normal_axis(a))],
            order[static_cast<std::size_t>(x.shape().normal_axis(b))]);
  return permute(x, order);
}
Tensor flip(const Tensor& x, const Axes& axes) {
  std::vector<Index> indices(static_cast<std::size_t>(x.rank()), Index::all());
  for (int axis : x.shape().normal_axes(axes)) indices[static_cast<std::size_t>(axis)] = Index::range({}, {}, -1);
  return slice(x, indices);
}

Index Index::range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop, std::int64_t step) {
  check(step != 0, "slice: the step is 0");
  Index index(0);
  index.start_ = start;
  index.stop_ = stop;
  index.step_ = step;
  index.position_ = false;
  return index;
}

std::pair<std::int64_t, std::int64_t> Index::resolve(std::int64_t size) const {
  if (position_) {
    check(*start_ >= -size && *start_ < size, "slice: position ", *start_, " is out of range for size ", size);
    return {*start_ < 0 ? *start_ + size : *start_, 1};
  }
  const std::int64_t low = step_ > 0 ? 0 : -1, high = step_ > 0 ? size : size - 1;
  auto bound = [&](const std::optional<std::int64_t>& value, std::int64_t missing) {
    return value ? std::clamp(*value < 0 ? *value + size : *value, low, high) : missing;
  };
  const std::int64_t first = bound(start_, step_ > 0 ? low : high), last = bound(stop_, step_ > 0 ? high : low);
  const std::int64_t span = step_ > 0 ? last - first : first - last, step = std::abs(step_);
  return {first, span <= 0 ? 0 : (span + step - 1) / step};
}

namespace {

// A slicing split in two: the strided part, and the axes that positions drop.
struct Slicing {
  Slice op;
  Shape shape;
  Axes dropped;
};

Slicing resolve(const Tensor& x, const std::vector<Index>& indices) {
  check(indices.size() <= static_cast<std::size_t>(x.rank()), "slice: ", indices.size(), " indices for shape ",
        x.shape());
  Slicing result;
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Index index =
        axis < static_cast<int>(indices.size()) ? indices[static_cast<std::size_t>(axis)] : Index::all();
    const auto [first, count] = index.resolve(x.shape()[axis]);
    result.op.start.push_back(count == 0 ? 0 : first);
    result.op.step.push_back(index.step());
    sizes.push_back(count);
    if (index.is_position()) result.dropped.push_back(axis);
  }
  result.shape = Shape(std::move(sizes));
  return result;
}

// Puts the elements of x at start + i * step of a zero array of `shape`: Slice's transpose.
Tensor unslice(const Tensor& x, const Slice& op, const Shape& shape) {
  Tensor y = x;
  Axes reversed;
  std::vector<std::int64_t> low, high;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t step = std::abs(op.step[at]), count = y.shape()[axis];
    std::int64_t first = op.start[at];
    if (op.step[at] < 0 && count > 0) {
      reversed.push_back(axis);
      first += (count - 1) * op.step[at];
    }
    if (step > 1 && count > 0) {  // spread by padding a new axis after this one
      std::vector<std::int64_t> zero(static_cast<std::size_t>(shape.rank()) + 1, 0), after = zero;
      after[at + 1] = step - 1;
      std::vector<std::int64_t> spread(y.shape().begin(), y.shape().end());
      spread[at] = count * step;
      y = reshape(pad(expand_dims(y, {axis + 1}), zero, after), spread);
      y = slice(y, [&] {
        std::vector<Index> keep(static_cast<std::size_t>(shape.rank()), Index::all());
        keep[at] = Index::range(0, (count - 1) * step + 1);
        return keep;
      }());
    }
    low.push_back(count == 0 ? 0 : first);
    high.push_back(shape[axis] - low.back() - y.shape()[axis]);
  }
  if (!reversed.empty()) y = flip(y, reversed);
  return pad(y, low, high);
}

}  // namespace

Tensor slice(const Tensor& x, const std::vector<Index>& indices) {
  const Slicing s = resolve(x, indices);
  const bool whole =
      s.shape == x.shape() && std::all_of(s.op.step.begin(), s.op.step.end(), [](auto step) { return step == 1; });
  return squeeze(whole ? x : Tensor::make(s.op, {x}, s.shape, x.dtype()), s.dropped);
}
Gradients gradient(const Slice& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return {unslice(g, op, x[0].shape())};
}

Tensor update(const Tensor& x, const std::vector<Index>& indices, const Tensor& value) {
  const Slicing s = resolve(x, indices);
  std::vector<std::int64_t> seen;
  for (int axis = 0; axis < s.shape.rank(); ++axis)
    if (!std::binary_search(s.dropped.begin(), s.dropped.end(), axis)) seen.push_back(s.shape[axis]);
  const Tensor part = reshape(broadcast_to(cast(value, x.dtype()), Shape(seen)), s.shape);
  // The mask is made of coordinates, so it costs no memory.
  Tensor inside = ones(x.shape(), Dtype::u8);
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t count = s.shape[axis], step = s.op.step[at];
    if (count == x.shape()[axis]) continue;
    if (count == 0) return x;
    const std::int64_t first = std::min(s.op.start[at], s.op.start[at] + (count - 1) * step);
    const std::int64_t last = std::max(s.op.start[at], s.op.start[at] + (count - 1) * step);
    const Tensor position = coordinate(x.shape(), axis);
    Tensor hit = logical_and(position >= first, position <= last);
    if (std::abs(step) > 1) hit = logical_and(hit, fmod(position - first, std::abs(step)) == 0);
    inside = logical_and(inside, hit);
  }
  if (value.shape().size() == 1) return where(inside, reshape(cast(value, x.dtype()), Shape{}), x);
  return where(inside, unslice(part, s.op, x.shape()), x);
}

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& low, const std::vector<std::int64_t>& high, double value) {
  const auto rank = static_cast<std::size_t>(x.rank());
  check(low.size() == rank && high.size() == rank, "pad: ", low.size(), " and ", high.size(), " numbers for shape ",
        x.shape());
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < rank; ++i) {
    check(low[i] >= 0 && high[i] >= 0, "pad: a negative number of elements");
    sizes.push_back(x.shape().sizes()[i] + low[i] + high[i]);
  }
  Shape shape(std::move(sizes));
  return shape == x.shape() ? x : Tensor::make(Pad{low, high, value}, {x}, std::move(shape), x.dtype());
}
Gradients gradient(const Pad& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  std::vector<Index> inner;
  for (int axis = 0; axis < g.rank(); ++axis) {
    const std::int64_t low = op.low[static_cast<std::size_t>(axis)];
    inner.push_back(Index::range(low, low + x[0].shape()[axis]));
  }
  return {slice(g, inner)};
}

Tensor concat(const std::vector<Tensor>& parts, int axis) {
  check(!parts.empty(), "concat: no inputs");
  const Shape& first = parts[0].shape();
  const int at = first.normal_axis(axis);
  Dtype dtype = parts[0].dtype();
  std::int64_t size = 0;
  for (const Tensor& part : parts) {
    check(part.rank() == first.rank() && part.shape().with(at, 0) == first.with(at, 0), "concat: shapes ", first,
          " and ", part.shape(), " differ outside axis ", at);
    dtype = promote(dtype, part.dtype());
    size += part.shape()[at];
  }
  if (parts.size() == 1) return parts[0];
  std::vector<Tensor> same;
  for (const Tensor& part : parts) same.push_back(cast(part, dtype));
  return Tensor::make(Concat{at}, std::move(same), first.with(at, size), dtype);
}
Gradients gradient(const Concat& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  Gradients result;
  std::int64_t start = 0;
  for (const Tensor& part : x) {
    std::vector<Index> indices(static_cast<std::size_t>(g.rank()), Index::all());
    const std::int64_t stop = start + part.shape()[op.axis];
    indices[static_cast<std::size_t>(op.axis)] = Index::range(start, stop);
    result.push_back(slice(g, indices));
    start = stop;
  }
  return result;
}
Tensor stack(const std::vector<Tensor>& parts, int axis) {
  check(!parts.empty(), "stack: no inputs");
  const int at = axis < 0 ? axis + parts[0].rank() + 1 : axis;
  std::vector<Tensor> expanded;
  for (const Tensor& part : parts) expanded.push_back(expand_dims(part, {at}));
  return concat(expanded, at);
}

Tensor take(const Tensor& x, const Tensor& indices, int axis) {
  check(!is_floating(indices.dtype()), "take: indices are ", indices.dtype(), ", expected an integer type");
  const int at = x.shape().normal_axis(axis);
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().begin() + at);
  sizes.insert(sizes.end(), indices.shape().begin(), indices.shape().end());
  sizes.insert(sizes.end(), x.shape().begin() + at + 1, x.shape().end());
  return Tensor::make(Gather{at}, {x, cast(indices, Dtype::i32)}, Shape(std::move(sizes)), x.dtype());
}
Gradients gradient(const Gather& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return {scatter_add(x[0].shape(), x[1], g, op.axis), {}};
}
Tensor scatter_add(const Shape& shape, const Tensor& indices, const Tensor& updates, int axis) {
  check(!is_floating(indices.dtype()), "scatter_add: indices are ", indices.dtype(), ", expected an integer type");
  const int at = shape.normal_axis(axis);
  std::vector<std::int64_t> sizes(shape.begin(), shape.begin() + at);
  sizes.insert(sizes.end(), indices.shape().begin(), indices.shape().end());
  sizes.insert(sizes.end(), shape.begin() + at + 1, shape.end());
  check(updates.shape() == Shape(sizes), "scatter_add: updates are ", updates.shape(), ", expected ", Shape(sizes));
  return Tensor::make(Scatter{at}, {updates, cast(indices, Dtype::i32)}, shape, updates.dtype());
}
Gradients gradient(const Scatter& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return {take(g, x[1], op.axis), {}};
}
Tensor one_hot(const Tensor& indices, std::int64_t classes, Dtype dtype, int axis) {
  const int at = axis < 0 ? axis + indices.rank() + 1 : axis;
  const Tensor wide = expand_dims(indices, {at});
  return cast(wide == coordinate(wide.shape().with(at, classes), at), dtype);
}

namespace {

Tensor random(RandomKind kind, const Shape& shape, std::uint64_t stream, const Tensor& step) {
  check(step.shape().size() == 1 && !is_floating(step.dtype()), "random: the step is ", step.dtype(), " ", step.shape(),
        ", expected one integer");
  const Tensor everywhere = broadcast_to(reshape(cast(step, Dtype::i32), Shape{}), shape);
  return Tensor::make(Random{kind, stream}, {everywhere}, shape, Dtype::f32);
}

}  // namespace

Tensor uniform(const Shape& shape, std::uint64_t stream, const Tensor& step) {
  return random(RandomKind::uniform, shape, stream, step);
}
Tensor normal(const Shape& shape, std::uint64_t stream, const Tensor& step) {
  return random(RandomKind::normal, shape, stream, step);
}
Tensor bernoulli(const Shape& shape, const Tensor& p, std::uint64_t stream, const Tensor& step) {
  return uniform(shape, stream, step) < p;
}

}  // namespace nixie
