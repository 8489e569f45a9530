// Fold: which ops do the same to each of the axes that become one.
#include "nixie/core/rewrites/fold.h"

#include <algorithm>
#include <functional>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

Axes order_of(const Fold& fold) {
  Axes order;
  for (const Axes& axes : fold.axes) order.insert(order.end(), axes.begin(), axes.end());
  return order;
}

int rank_of(const Fold& fold) { return static_cast<int>(order_of(fold).size()); }

// Whether all axes that become one have a property, or none of them; axes of size 1 have it or not.
bool together(const Fold& fold, const Shape& shape, const std::function<bool(int)>& has) {
  return std::ranges::all_of(fold.axes, [&](const Axes& axes) {
    bool all = true, any = false;
    for (int axis : axes)
      if (shape[axis] != 1) all &= has(axis), any |= has(axis);
    return all || !any;
  });
}

// Whether axes that become one are left alone.
bool alone(const Fold& fold, const std::function<bool(int)>& is_changed) {
  return std::ranges::none_of(
      fold.axes, [&](const Axes& axes) { return axes.size() > 1 && std::ranges::any_of(axes, is_changed); });
}

// A number for each axis of an image; `of_unit` for one that is no axis of the array, or several.
template <class Number>
std::vector<Number> per_axis(const Fold& fold, const std::vector<Number>& values, Number of_unit, int first = 0) {
  std::vector<Number> result;
  for (const Axes& axes : std::vector(fold.axes.begin() + first, fold.axes.end()))
    result.push_back(axes.size() == 1 ? values[at(axes[0] - first)] : of_unit);
  return result;
}

std::optional<Op> folded_op(const Fold& fold, const Reduce& reduce, const Shape& from) {
  const auto reduces = [&](int axis) { return std::ranges::count(reduce.axes, axis) > 0; };
  if (!together(fold, from, reduces) || (gives_position(reduce.kind) && !fold.keeps_order())) return {};
  Reduce result{.kind = reduce.kind};
  for (int axis = 0; axis < 4; ++axis)
    if (std::ranges::any_of(fold.axes[at(axis)], reduces)) result.axes.push_back(axis);
  return result;
}

std::optional<Op> folded_op(const Fold& fold, const Conv& conv, const Shape& window) {
  const auto slides = [&](int axis) {
    return axis >= 2 && (window[axis] != 1 || conv.stride[at(axis - 2)] != 1 || conv.pad[at(axis - 2)] != 0);
  };
  if (!alone(fold, slides)) return {};
  Conv result = conv;
  result.stride = per_axis(fold, conv.stride, 1, 2), result.pad = per_axis(fold, conv.pad, 0, 2);
  result.dilation = per_axis(fold, conv.dilation, 1, 2);
  return result;
}

std::optional<Op> folded_op(const Fold& fold, const Pool& pool) {
  const auto slides = [&](int axis) {
    return axis >= 1 &&
           (pool.window[at(axis - 1)] != 1 || pool.stride[at(axis - 1)] != 1 || pool.pad[at(axis - 1)] != 0);
  };
  if (!alone(fold, slides)) return {};
  Pool result = pool;
  result.window = per_axis(fold, pool.window, 1, 1), result.stride = per_axis(fold, pool.stride, 1, 1);
  result.pad = per_axis(fold, pool.pad, 0, 1);
  if (!pool.dilation.empty()) result.dilation = per_axis(fold, pool.dilation, 1, 1);
  return result;
}

}  // namespace

bool Fold::keeps_order() const {
  const Axes order = order_of(*this);
  return std::ranges::is_sorted(order);
}

Shape folded(const Fold& fold, const Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (const Axes& axes : fold.axes) {
    sizes.push_back(1);
    for (int axis : axes) sizes.back() *= shape[axis];
  }
  return Shape(sizes);
}

Tensor folded(const Fold& fold, const Tensor& x) {
  return reshape(fold.keeps_order() ? x : permute(x, order_of(fold)), folded(fold, x.shape()));
}

Tensor unfolded(const Fold& fold, const Tensor& y, const Shape& shape) {
  if (fold.keeps_order()) return reshape(y, shape);
  const Axes order = order_of(fold);
  std::vector<std::int64_t> sizes;
  for (int axis : order) sizes.push_back(shape[axis]);
  return permute(reshape(y, sizes), inverse(order));
}

std::optional<Op> folded_op(const Fold& fold, const Tensor& x) {
  if (x.rank() != rank_of(fold)) return {};
  const auto input = [&](std::size_t i) -> const Shape& { return x.inputs()[i].shape(); };
  using Result = std::optional<Op>;
  return std::visit(
      overloaded{
          [](const Map& map) -> Result { return map; },
          [&](const Random& random) { return fold.keeps_order() ? Result(random) : Result(); },
          [&](const Reduce& reduce) { return folded_op(fold, reduce, input(0)); },
          [&](const Expand& expand) {
            const auto repeats = [&](int axis) { return input(0)[axis] != x.shape()[axis]; };
            return together(fold, x.shape(), repeats) ? Result(expand) : Result();
          },
          [&](const Slice& slice) {
            const auto is_cut = [&](int axis) {
              return slice.step[at(axis)] != 1 || input(0)[axis] != x.shape()[axis];
            };
            const std::int64_t none = 0, one = 1;
            return alone(fold, is_cut)
                       ? Result(Slice{per_axis(fold, slice.start, none), per_axis(fold, slice.step, one)})
                       : Result();
          },
          [&](const Pad& pad) {
            const auto is_padded = [&](int axis) { return pad.low[at(axis)] != 0 || pad.high[at(axis)] != 0; };
            const std::int64_t none = 0;
            return alone(fold, is_padded)
                       ? Result(Pad{per_axis(fold, pad.low, none), per_axis(fold, pad.high, none), pad.value})
                       : Result();
          },
          [&](const Concat& concat) {
            for (int axis = 0; axis < 4; ++axis)
              if (fold.axes[at(axis)] == Axes{concat.axis}) return Result(Concat{axis});
            return Result();
          },
          [&](const Conv& conv) {
            return folded_op(fold, conv, conv.role == ConvRole::filter_grad ? x.shape() : input(1));
          },
          [&](const Pool& pool) { return folded_op(fold, pool); },
          []<OneOf<Constant, Input, Coordinate, Reshape, Permute, Gather, Scatter, ArgSort, Scan, Matmul,
                   RoundedProduct, Collective>
                 T>(const T&) { return Result(); },
      },
      x.node().op);
}

}  // namespace nixie
