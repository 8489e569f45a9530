// Indexing by slices, by arrays of positions and by masks: shape rules and gradients.
#include <algorithm>
#include <limits>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/storage.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

Index Index::range(std::optional<std::int64_t> start, std::optional<std::int64_t> stop, std::int64_t step) {
  check(step != 0, "slice: the step is 0");
  check(step >= -Shape::kMostElements && step <= Shape::kMostElements, "slice: the step is ", step,
        ", expected at most 2^48");
  Index index(0);
  index.start_ = start;
  index.stop_ = stop;
  index.step_ = step;
  index.position_ = false;
  return index;
}

std::vector<Index> Index::along(int axis, Index range) {
  std::vector<Index> indices(at(axis), all());
  indices.push_back(range);
  return indices;
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
    if (step > 1 && count > 1) {  // spread by padding a new axis after this one
      std::vector<std::int64_t> zero(static_cast<std::size_t>(shape.rank()) + 1, 0), after = zero;
      after[at + 1] = step - 1;
      std::vector<std::int64_t> spread(y.shape().begin(), y.shape().end());
      spread[at] = count * step;
      y = reshape(pad(expand_dims(y, {axis + 1}), zero, after), spread);
      y = slice(y, Index::along(axis, Index::range(0, (count - 1) * step + 1)));
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
  const bool whole = s.shape == x.shape() && std::ranges::all_of(s.op.step, [](auto step) { return step == 1; });
  return squeeze(whole ? x : Tensor::make(s.op, {x}, s.shape, x.dtype()), s.dropped);
}
Gradients gradient(const Slice& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return {unslice(g, op, x[0].shape())};
}

Tensor update(const Tensor& x, const std::vector<Index>& indices, const Tensor& value) {
  const Slicing s = resolve(x, indices);
  std::vector<std::int64_t> seen;
  for (int axis = 0; axis < s.shape.rank(); ++axis)
    if (!std::ranges::binary_search(s.dropped, axis)) seen.push_back(s.shape[axis]);
  const Tensor part = reshape(broadcast_to(cast(value, x.dtype()), Shape(seen)), s.shape);
  // The mask is made of coordinates, so it costs no memory.
  Tensor inside = ones(x.shape(), Dtype::boolean);
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t count = s.shape[axis], step = s.op.step[at];
    if (count == x.shape()[axis]) continue;
    if (count == 0) return x;
    const auto [first, last] = std::minmax({s.op.start[at], s.op.start[at] + (count - 1) * step});
    const Tensor position = coordinate(x.shape(), axis);
    Tensor hit = logical_and(position >= first, position <= last);
    if (std::abs(step) > 1) hit = logical_and(hit, fmod(position - first, std::abs(step)) == 0);
    inside = logical_and(inside, hit);
  }
  if (value.shape().size() == 1) return where(inside, reshape(cast(value, x.dtype()), Shape{}), x);
  return where(inside, unslice(part, s.op, x.shape()), x);
}

namespace {

// Throws for an index outside [-size, size), where the indices are numbers that the host holds: at the line that named
// them. Others are looked at when the kernel runs, and give NaN.
void check_indices(const char* op, const Tensor& indices, std::int64_t size) {
  check(!is_floating(indices.dtype()), op, ": indices are ", indices.dtype(), ", expected an integer type");
  const auto* input = op_as<Input>(indices);
  const bool is_number = is_a<Constant>(indices);
  if (!is_number && !(input && input->storage && input->storage->is_on_host())) return;
  for (const std::int64_t index : indices.to_vector<std::int64_t>())
    if (index < -size || index >= size) fail(Fault::usage, op, ": index ", index, " is out of range for size ", size);
}

// The result of an index out of range, in this type.
Tensor no_number(Dtype dtype) {
  if (is_floating(dtype)) return std::numeric_limits<double>::quiet_NaN();
  return visit_dtype(
      dtype, [&](auto type) { return full({}, convert<double>(std::numeric_limits<decltype(type)>::max()), dtype); });
}

// The shape of `shape` with the indices in place of an axis: of what take gives, and of updates.
Shape indexed(const Shape& shape, int axis, const Shape& indices) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.begin() + axis);
  sizes.insert(sizes.end(), indices.begin(), indices.end());
  sizes.insert(sizes.end(), shape.begin() + axis + 1, shape.end());
  return Shape(std::move(sizes));
}

// Negative positions counted from the end.
Tensor from_start(const Tensor& indices, std::int64_t size) {
  const Tensor wide = cast(indices, Dtype::i32);
  return where(wide < 0, wide + size, wide);
}
Tensor is_inside(const Tensor& positions, std::int64_t size) { return logical_and(positions >= 0, positions < size); }

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, int axis) {
  const int at = x.shape().normal_axis(axis);
  check_indices("take", indices, x.shape()[at]);
  return Tensor::make(Gather{at}, {x, cast(indices, Dtype::i32)}, indexed(x.shape(), at, indices.shape()), x.dtype());
}
Gradients gradient(const Gather& op, const Tensor& g, const Tensor&, const std::vector<Tensor>& x) {
  return {scatter_add(x[0].shape(), x[1], g, op.axis), {}};
}

namespace {

Tensor reduce_at(ReduceKind kind, const Shape& shape, int axis, const Tensor& indices, const Tensor& given) {
  const bool orders = kind == ReduceKind::max || kind == ReduceKind::min;
  const Tensor updates = orders ? as_ordered(widened(given)) : widened(given);
  const Tensor order = argsort(reshape(from_start(indices, shape[axis]), {-1}));
  const Tensor y =
      Tensor::make(Scatter{axis, kind}, {updates, cast(indices, Dtype::i32), order}, shape, updates.dtype());
  return from_ordered(y, gradient_dtype(given.dtype()));
}

}  // namespace

Tensor scatter_add(const Shape& shape, const Tensor& indices, const Tensor& updates, int axis) {
  const int at = shape.normal_axis(axis);
  check_indices("scatter_add", indices, shape[at]);
  const Shape expected = indexed(shape, at, indices.shape());
  check(updates.shape() == expected, "scatter_add: updates are ", updates.shape(), ", expected ", expected);
  return reduce_at(ReduceKind::sum, shape, at, indices, updates);
}
Gradients gradient(const Scatter& op, const Tensor& g, const Tensor& y, const std::vector<Tensor>& inputs) {
  const Tensor &x = inputs[0], &indices = inputs[1];
  const auto at_updates = [&](const Tensor& value) { return take(value, indices, op.axis); };
  const auto counted = [&](const Tensor& hit) {
    return at_updates(reduce_at(ReduceKind::sum, y.shape(), op.axis, indices, cast(hit, x.dtype())));
  };
  if (op.kind == ReduceKind::sum) return {at_updates(g), {}, {}};
  if (op.kind == ReduceKind::prod) {  // as of Reduce
    const Tensor zero = x == 0, factors = where(zero, 1, x);
    const Tensor others = at_updates(reduce_at(ReduceKind::prod, y.shape(), op.axis, indices, factors)) / factors;
    return {at_updates(g) * where(counted(zero) - zero == 0, others, 0), {}, {}};
  }
  const Tensor hit = x == at_updates(y);  // shared evenly among equals
  return {hit * (at_updates(g) / counted(hit)), {}, {}};
}
Tensor one_hot(const Tensor& indices, std::int64_t classes, Dtype dtype, int axis) {
  check_indices("one_hot", indices, classes);
  const int at = axis < 0 ? axis + indices.rank() + 1 : axis;
  const Tensor column = expand_dims(indices, {at});
  const Shape shape = column.shape().with(at, classes);
  const Tensor wide = from_start(broadcast_to(column, shape), classes);  // all of it is one kernel over the result
  const Tensor hit = cast(wide == coordinate(shape, at), dtype);
  return where(is_inside(wide, classes), hit, no_number(dtype));
}

Tensor take_along_axis(const Tensor& x, const Tensor& indices, int axis) {
  const int at = x.shape().normal_axis(axis);
  const std::int64_t size = x.shape()[at];
  check_indices("take_along_axis", indices, size);
  check(indices.rank() == x.rank(), "take_along_axis: indices are ", indices.shape(), " for ", x.shape(),
        ", expected the same rank");
  check(x.shape().size() <= std::numeric_limits<std::int32_t>::max(), "take_along_axis: ", x.shape(),
        " has more elements than i32 counts");
  const Shape result = broadcast(indices.shape(), x.shape().with(at, 1));
  for (int i = 0; i < x.rank(); ++i)
    check(i == at || result[i] == x.shape()[i], "take_along_axis: indices are ", indices.shape(), " for ", x.shape(),
          ", which differ outside axis ", at);
  const Strides strides = x.shape().row_major();
  const Tensor positions = from_start(broadcast_to(indices, result), size);
  Tensor flat = positions * strides[static_cast<std::size_t>(at)];
  for (int i = 0; i < x.rank(); ++i)
    if (i != at && result[i] > 1) flat = flat + coordinate(result, i) * strides[static_cast<std::size_t>(i)];
  // Out of range here is out of range there, not in another row.
  return take(reshape(x, {-1}), where(is_inside(positions, size), flat, x.shape().size()));
}

namespace {

// Updates in x's type, one for each index along an axis.
Tensor spread(const char* op, const Tensor& x, const Tensor& indices, const Tensor& updates, int axis) {
  check_indices(op, indices, x.shape()[axis]);
  return broadcast_to(cast(updates, x.dtype()), indexed(x.shape(), axis, indices.shape()));
}

// The larger or smaller of x and its updates, or their product.
Tensor reduce_with(const char* op, ReduceKind kind, const Tensor& x, const Tensor& indices, const Tensor& updates,
                   int axis) {
  const int at = x.shape().normal_axis(axis);
  // Bools have no bounds but those of their kernels' integers.
  const Tensor base = x.dtype() == Dtype::boolean ? cast(x, Dtype::u8) : widened(x);
  const Tensor values = cast(spread(op, x, indices, updates, at), base.dtype());
  // x is an update as well, so that equals share.
  const Tensor joined = concat({arange(x.shape()[at]), reshape(cast(indices, Dtype::i32), {-1})}, 0);
  const Tensor flat = reshape(values, x.shape().with(at, indices.shape().size()));
  return cast(reduce_at(kind, x.shape(), at, joined, concat({base, flat}, at)), x.dtype());
}

}  // namespace

Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis) {
  const int at = x.shape().normal_axis(axis);
  const std::int64_t size = x.shape()[at], count = indices.shape().size();
  const Tensor values = spread("scatter", x, indices, updates, at);
  if (count == 0) return x;
  // The last update of each position, below 0 where there is none.
  const Tensor last = reduce_at(ReduceKind::max, {size}, 0, reshape(indices, {-1}), arange(count));
  const Shape along = Shape(std::vector<std::int64_t>(x.shape().sizes().size(), 1)).with(at, size);
  const Tensor flat = reshape(values, x.shape().with(at, count));
  return where(reshape(last >= 0, along), take(flat, maximum(last, 0), at), x);
}
Tensor scatter_mul(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis) {
  return reduce_with("scatter_mul", ReduceKind::prod, x, indices, updates, axis);
}
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis) {
  return reduce_with("scatter_max", ReduceKind::max, x, indices, updates, axis);
}
Tensor scatter_min(const Tensor& x, const Tensor& indices, const Tensor& updates, int axis) {
  return reduce_with("scatter_min", ReduceKind::min, x, indices, updates, axis);
}

Tensor update_where(const Tensor& x, const Tensor& mask, const Tensor& value) {
  check(broadcast(mask.shape(), x.shape()) == x.shape(), "update: a mask of ", mask.shape(), " for ", x.shape());
  check(broadcast(value.shape(), x.shape()) == x.shape(), "update: a value of ", value.shape(), " for ", x.shape());
  return where(mask, cast(value, x.dtype()), x);
}

}  // namespace nixie
