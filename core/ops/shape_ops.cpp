// Leaves and views: shape rules and gradients.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

// Positions [first, last) of an axis.
Tensor piece(const Tensor& x, int axis, std::int64_t first, std::int64_t last) {
  return slice(x, Index::along(axis, Index::range(first, last)));
}

}  // namespace

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
  check(shape[axis] <= std::int64_t{1} << 31, "coordinate: axis ", axis, " of ", shape, " is longer than i32 counts");
  return Tensor::make(Coordinate{shape.normal_axis(axis)}, {}, shape, Dtype::i32);
}
Tensor arange(std::int64_t size) { return coordinate({size}, 0); }
Tensor linspace(double start, double stop, std::int64_t count, Dtype dtype) {
  check(count >= 0, "linspace: ", count, " numbers, expected 0 or more");
  check(is_floating(dtype) && !is_f8(dtype), "linspace: ", count, " numbers of ", dtype,
        ", expected f64, f32, f16 or bf16");
  const double step = count > 1 ? (stop - start) / static_cast<double>(count - 1) : 0;
  const Tensor i = arange(count), at = cast(i, dtype) * full({}, step, dtype) + full({}, start, dtype);
  return count > 1 ? where(i == count - 1, full({}, stop, dtype), at) : at;  // the end is exact
}

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
  const auto free = std::ranges::find(known, -1);
  if (free != known.end()) {
    *free = 1;
    check(std::ranges::find(known, -1) == known.end(), "reshape: ", fmt::format("[{}]", fmt::join(sizes, ", ")),
          " leaves two sizes open, expected one -1 at most");
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
  std::vector<std::int64_t> sizes = x.shape().sizes();
  sizes.resize(sizes.size() + axes.size(), 1);
  const Axes inserted = Shape(sizes).normal_axes(axes);
  auto next = x.shape().begin();
  for (int axis = 0; axis < static_cast<int>(sizes.size()); ++axis)
    sizes[static_cast<std::size_t>(axis)] = std::ranges::binary_search(inserted, axis) ? 1 : *next++;
  return reshape(x, sizes);
}
Tensor squeeze(const Tensor& x, const Axes& axes) {
  const Axes dropped = x.shape().normal_axes(axes);
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!std::ranges::binary_search(dropped, axis)) {
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
  if (std::ranges::is_sorted(op.order)) return x;
  return Tensor::make(std::move(op), {x}, Shape(std::move(sizes)), x.dtype());
}
Gradients gradient(const Permute& op, const Tensor& g, const Tensor&, const std::vector<Tensor>&) {
  return {permute(g, inverse(op.order))};
}
Tensor transpose(const Tensor& x) {
  Axes order = all_axes(x.shape());
  std::ranges::reverse(order);
  return permute(x, order);
}
Tensor transpose(const Tensor& x, int a, int b) {
  Axes order = all_axes(x.shape());
  std::swap(order[static_cast<std::size_t>(x.shape().normal_axis(a))],
            order[static_cast<std::size_t>(x.shape().normal_axis(b))]);
  return permute(x, order);
}
Tensor moveaxis(const Tensor& x, const Axes& from, const Axes& to) {
  check(from.size() == to.size(), "moveaxis: ", from.size(), " axes are moved to ", to.size(), " places");
  x.shape().normal_axes(from), x.shape().normal_axes(to);  // throw for an axis that is named twice
  std::vector<int> order(static_cast<std::size_t>(x.rank()), -1);
  std::vector<char> moves(order.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const int axis = x.shape().normal_axis(from[i]);
    order[static_cast<std::size_t>(x.shape().normal_axis(to[i]))] = axis;
    moves[static_cast<std::size_t>(axis)] = 1;
  }
  auto next = order.begin();
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!moves[static_cast<std::size_t>(axis)]) *(next = std::find(next, order.end(), -1)) = axis;
  return permute(x, order);
}
Tensor repeat(const Tensor& x, std::int64_t repeats, std::optional<int> axis) {
  if (!axis) return repeat(reshape(x, {-1}), repeats, 0);
  check(repeats >= 0, "repeat: ", repeats, " repeats, expected a number from 0 up");
  const int at = x.shape().normal_axis(*axis);
  const Tensor apart = expand_dims(x, at + 1);
  const Shape sizes = x.shape().with(at, Shape{x.shape()[at], repeats}.size());
  return reshape(broadcast_to(apart, apart.shape().with(at + 1, repeats)), sizes);
}
Tensor tile(const Tensor& x, const std::vector<std::int64_t>& repeats) {
  const auto rank = std::max(static_cast<std::size_t>(x.rank()), repeats.size());
  std::vector<std::int64_t> sizes(rank, 1), counts(rank, 1), apart, repeated, joined;
  std::copy_backward(x.shape().begin(), x.shape().end(), sizes.end());
  std::copy_backward(repeats.begin(), repeats.end(), counts.end());
  for (std::size_t i = 0; i < rank; ++i) {
    check(counts[i] >= 0, "tile: ", counts[i], " repeats, expected a number from 0 up");
    apart.insert(apart.end(), {1, sizes[i]});
    repeated.insert(repeated.end(), {counts[i], sizes[i]});
    joined.push_back(Shape{counts[i], sizes[i]}.size());
  }
  return reshape(broadcast_to(reshape(x, apart), Shape(repeated)), joined);
}
Tensor roll(const Tensor& x, std::int64_t shift, int axis) {
  const int at = x.shape().normal_axis(axis);
  const std::int64_t size = x.shape()[at];
  if (size == 0 || shift % size == 0) return x;
  const std::int64_t cut = shift % size > 0 ? size - shift % size : -(shift % size);
  return concat({piece(x, at, cut, size), piece(x, at, 0, cut)}, at);
}
namespace {

Tensor diagonal_of(const Tensor& x, const char* op) {
  check(x.rank() >= 2, op, ": the array is ", x.shape(), ", expected at least two axes");
  return coordinate(x.shape(), -1) - coordinate(x.shape(), -2);
}

// Zero in x's type; beside the number 0 bools would become integers.
Tensor none_of(const Tensor& x) { return x.dtype() == Dtype::boolean ? Tensor(false) : Tensor(0); }

}  // namespace
Tensor tril(const Tensor& x, std::int64_t diagonal) { return where(diagonal_of(x, "tril") <= diagonal, x, none_of(x)); }
Tensor triu(const Tensor& x, std::int64_t diagonal) { return where(diagonal_of(x, "triu") >= diagonal, x, none_of(x)); }
Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, std::int64_t diagonal, Dtype dtype) {
  return cast(diagonal_of(ones({rows, columns.value_or(rows)}), "eye") == diagonal, dtype);
}
Tensor flip(const Tensor& x, const Axes& axes) {
  std::vector<Index> indices(static_cast<std::size_t>(x.rank()), Index::all());
  for (int axis : x.shape().normal_axes(axes)) indices[static_cast<std::size_t>(axis)] = Index::range({}, {}, -1);
  return slice(x, indices);
}

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& low, const std::vector<std::int64_t>& high, double value) {
  const auto rank = static_cast<std::size_t>(x.rank());
  check(low.size() == rank && high.size() == rank, "pad: ", low.size(), " and ", high.size(), " numbers for shape ",
        x.shape());
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < rank; ++i) {
    check(low[i] >= 0 && high[i] >= 0, "pad: a negative number of elements");
    check(std::max(low[i], high[i]) <= Shape::kMostElements, "pad: ", low[i], " and ", high[i],
          " elements are more than an array can have");
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
    if (part.dtype() != dtype) dtype = promote(dtype, part.dtype());
    size += part.shape()[at];
  }
  if (parts.size() == 1) return parts[0];
  std::vector<Tensor> same;
  for (const Tensor& part : parts) same.push_back(retype(part, dtype));
  return Tensor::make(Concat{at}, std::move(same), first.with(at, size), dtype);
}
Gradients gradient(const Concat& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  Gradients result;
  std::int64_t start = 0;
  for (const Tensor& part : x) {
    const std::int64_t stop = start + part.shape()[op.axis];
    result.push_back(piece(g, op.axis, start, stop));
    start = stop;
  }
  return result;
}
Tensor stack(const std::vector<Tensor>& parts, int axis) {
  check(!parts.empty(), "stack: no inputs");
  const int most = parts[0].rank();
  check(axis >= -most - 1 && axis <= most, "stack: axis ", axis, " of arrays ", parts[0].shape(), ", expected ",
        -most - 1, " to ", most);
  const int at = axis < 0 ? axis + most + 1 : axis;
  std::vector<Tensor> expanded;
  for (const Tensor& part : parts) expanded.push_back(expand_dims(part, {at}));
  return concat(expanded, at);
}

std::vector<Tensor> split(const Tensor& x, std::int64_t parts, int axis) {
  const std::int64_t size = x.shape()[axis];
  check(parts > 0 && size % parts == 0, "split: axis ", axis, " of ", x.shape(), " has no ", parts,
        " pieces of one size");
  std::vector<std::int64_t> positions;
  for (std::int64_t part = 1; part < parts; ++part) positions.push_back(part * (size / parts));
  return split(x, positions, axis);
}
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& positions, int axis) {
  const int at = x.shape().normal_axis(axis);
  std::vector<Tensor> pieces;
  std::int64_t first = 0;
  for (const std::int64_t position : positions) {
    check(position >= first && position <= x.shape()[at], "split: position ", position, " of axis ", at, " of ",
          x.shape(), ", expected ascending ones from 0 to ", x.shape()[at]);
    pieces.push_back(piece(x, at, first, position));
    first = position;
  }
  pieces.push_back(piece(x, at, first, x.shape()[at]));
  return pieces;
}
std::vector<Tensor> unstack(const Tensor& x, int axis) {
  const int at = x.shape().normal_axis(axis);
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < x.shape()[at]; ++i) parts.push_back(squeeze(piece(x, at, i, i + 1), at));
  return parts;
}
Tensor diff(const Tensor& x, int n, int axis) {
  check(n >= 0, "diff: n is ", n, ", expected a number from 0 up");
  const int at = x.shape().normal_axis(axis);
  Tensor y = x;
  for (int i = 0; i < n; ++i) {
    const std::int64_t size = y.shape()[at];
    y = piece(y, at, std::min<std::int64_t>(1, size), size) - piece(y, at, 0, std::max<std::int64_t>(size - 1, 0));
  }
  return y;
}

namespace {

Tensor random(RandomKind kind, const Shape& shape, std::uint64_t stream, const Tensor& step, std::int64_t first) {
  check(step.shape().size() == 1 && !is_floating(step.dtype()), "random: the step is ", step.dtype(), " ", step.shape(),
        ", expected one integer");
  check(first >= 0 && first < std::int64_t{1} << 53, "random: the first position is ", first,
        ", expected one of [0, 2^53)");
  const Tensor everywhere = broadcast_to(reshape(cast(step, Dtype::i32), Shape{}), shape);
  return Tensor::make(Random{kind, stream, first}, {everywhere}, shape, Dtype::f32);
}

}  // namespace

Tensor uniform(const Shape& shape, std::uint64_t stream, const Tensor& step, std::int64_t first) {
  return random(RandomKind::uniform, shape, stream, step, first);
}
Tensor normal(const Shape& shape, std::uint64_t stream, const Tensor& step, std::int64_t first) {
  return random(RandomKind::normal, shape, stream, step, first);
}
Tensor bernoulli(const Shape& shape, const Tensor& p, std::uint64_t stream, const Tensor& step, std::int64_t first) {
  return uniform(shape, stream, step, first) < p;
}

}  // namespace nixie
