// Reductions over any set of axes: shape rules and gradients.
#include <algorithm>
#include <limits>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

std::int64_t count_over(const Shape& shape, const Axes& axes) {
  std::int64_t count = 1;
  for (int axis : axes) count *= shape[axis];
  return count;
}

// Node-level reduction: axes of size 1 are left out, so that a reduced shape never equals the input's.
// The result over no integers is the bound of their own type, not of the one that kernels compute in.
double of_nothing(ReduceKind kind, Dtype dtype) {
  const bool is_max = kind == ReduceKind::max;
  if (!is_max && kind != ReduceKind::min) return kind == ReduceKind::prod ? 1 : 0;
  if (is_floating(dtype)) return is_max ? -INFINITY : INFINITY;
  return visit_dtype(dtype, [&](auto type) {
    using Limits = std::numeric_limits<decltype(type)>;
    return convert<double>(is_max ? Limits::lowest() : Limits::max());
  });
}

Tensor reduce(ReduceKind kind, const Tensor& given, const Axes& axes, bool keepdims, Dtype dtype) {
  const Tensor x = widened(given);
  const Axes named = x.shape().normal_axes(axes);
  Reduce op{.kind = kind};
  Shape kept = x.shape();
  for (int axis : named) {
    if (x.shape()[axis] != 1) op.axes.push_back(axis);
    kept = kept.with(axis, 1);
  }
  const bool picks = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
  check(!picks || count_over(x.shape(), named) <= std::int64_t{1} << 31, to_string(kind), ": positions in ", x.shape(),
        " are more than i32 counts");
  check(!picks || x.shape().size() > 0 || kept.size() == 0, to_string(kind), ": there is nothing to choose from in ",
        x.shape());
  Tensor y;
  if (!picks && !is_moment(kind) && count_over(x.shape(), named) == 0) {
    y = full(kept, of_nothing(kind, dtype), dtype);
  } else if (!op.axes.empty()) {
    y = Tensor::make(std::move(op), {x}, kept, dtype);
  } else if (kind == ReduceKind::m2) {
    y = where(is_finite(cast(x, dtype)), zeros(kept, dtype), std::numeric_limits<double>::quiet_NaN());
  } else {
    y = picks ? zeros(kept, dtype) : retype(x, dtype);
  }
  return keepdims ? y : squeeze(y, named);
}

Tensor extreme(ReduceKind kind, const Tensor& x, const Axes& axes, bool keepdims) {
  const Tensor values = as_ordered(x);
  const Tensor y = reduce(kind, values, axes, keepdims, gradient_dtype(values.dtype()));
  return from_ordered(y, gradient_dtype(x.dtype()));
}

// Halves are summed in f32: a sum of squares overflows f16 long before its mean or its root does.
Tensor wide(const Tensor& x) {
  const Tensor values = floating(x);
  return values.dtype() == Dtype::f64 ? values : retype(values, Dtype::f32);
}
// A result of `wide` values in the type that x has as a floating one, its reduced axes kept until then: what is
// computed from a reduction at its own positions shares its kernel.
Tensor narrow(const Tensor& y, const Tensor& x, const Axes& axes, bool keepdims) {
  const Tensor result = retype(y, floating(x).dtype());
  return keepdims ? result : squeeze(result, axes);
}
Tensor wide_variance(const Tensor& x, const Axes& axes) {
  const double n = static_cast<double>(count_over(x.shape(), x.shape().normal_axes(axes)));
  const Tensor values = wide(x);
  return reduce(ReduceKind::m2, values, axes, true, values.dtype()) / n;
}

// The root's slope at 0 is infinite, and times the slope of a square there, 0, NaN; it is taken to be 0.
Tensor flat_root(const Tensor& squares) {
  const Tensor some = squares > 0;
  return where(some, sqrt(where(some, squares, 1)), squares);
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims) {
  return reduce(ReduceKind::sum, x, axes, keepdims, sum_dtype(x.dtype()));
}
Tensor prod(const Tensor& x, const Axes& axes, bool keepdims) {
  return reduce(ReduceKind::prod, x, axes, keepdims, sum_dtype(x.dtype()));
}
Tensor max(const Tensor& x, const Axes& axes, bool keepdims) { return extreme(ReduceKind::max, x, axes, keepdims); }
Tensor min(const Tensor& x, const Axes& axes, bool keepdims) { return extreme(ReduceKind::min, x, axes, keepdims); }
Tensor mean(const Tensor& x, const Axes& axes, bool keepdims) {
  const Tensor values = floating(x);
  return reduce(ReduceKind::mean, values, axes, keepdims, values.dtype());
}
Tensor variance(const Tensor& x, const Axes& axes, bool keepdims) {
  return narrow(wide_variance(x, axes), x, axes, keepdims);
}
Tensor stddev(const Tensor& x, const Axes& axes, bool keepdims) {
  return narrow(flat_root(wide_variance(x, axes)), x, axes, keepdims);
}
Tensor argmax(const Tensor& x, const Axes& axes, bool keepdims) {
  return reduce(ReduceKind::argmax, as_ordered(x), axes, keepdims, Dtype::i32);
}
Tensor argmin(const Tensor& x, const Axes& axes, bool keepdims) {
  return reduce(ReduceKind::argmin, as_ordered(x), axes, keepdims, Dtype::i32);
}

Tensor sum(const Tensor& x) { return sum(x, all_axes(x.shape()), false); }
Tensor prod(const Tensor& x) { return prod(x, all_axes(x.shape()), false); }
Tensor max(const Tensor& x) { return max(x, all_axes(x.shape()), false); }
Tensor min(const Tensor& x) { return min(x, all_axes(x.shape()), false); }
Tensor mean(const Tensor& x) { return mean(x, all_axes(x.shape()), false); }
Tensor variance(const Tensor& x) { return variance(x, all_axes(x.shape()), false); }
Tensor stddev(const Tensor& x) { return stddev(x, all_axes(x.shape()), false); }
Tensor argmax(const Tensor& x) { return argmax(x, all_axes(x.shape()), false); }
Tensor argmin(const Tensor& x) { return argmin(x, all_axes(x.shape()), false); }

Tensor any(const Tensor& x, const Axes& axes, bool keepdims) { return max(cast(x, Dtype::boolean), axes, keepdims); }
Tensor all(const Tensor& x, const Axes& axes, bool keepdims) { return min(cast(x, Dtype::boolean), axes, keepdims); }
Tensor norm(const Tensor& x, const Axes& axes, bool keepdims) {
  return narrow(flat_root(sum(square(wide(x)), axes)), x, axes, keepdims);
}
Tensor any(const Tensor& x) { return any(x, all_axes(x.shape()), false); }
Tensor all(const Tensor& x) { return all(x, all_axes(x.shape()), false); }
Tensor norm(const Tensor& x) { return norm(x, all_axes(x.shape()), false); }

Tensor count_nonzero(const Tensor& x, const Axes& axes, bool keepdims) {
  return sum(cast(x, Dtype::boolean), axes, keepdims);
}
Tensor count_nonzero(const Tensor& x) { return count_nonzero(x, all_axes(x.shape()), false); }

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  check(broadcast(shape, x.shape()) == x.shape(), "sum_to: ", shape, " does not broadcast to ", x.shape());
  Axes axes;
  const int extra = x.rank() - shape.rank();
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis < extra || shape[axis - extra] == 1) axes.push_back(axis);
  return reshape(sum(x, axes), shape);
}

Gradients gradient(const Reduce& op, const Tensor& g, const Tensor& y, const std::vector<Tensor>& inputs) {
  const Tensor& x = inputs[0];
  switch (op.kind) {
    case ReduceKind::sum:
      return {broadcast_to(g, x.shape())};
    case ReduceKind::mean:
      return {broadcast_to(g / static_cast<double>(count_over(x.shape(), op.axes)), x.shape())};
    case ReduceKind::m2:
      return {2 * (x - mean(x, op.axes)) * g};
    case ReduceKind::max:
    case ReduceKind::min: {  // shared evenly among equals
      const Tensor hit = x == y;
      return {hit * (g / sum(cast(hit, x.dtype()), op.axes))};
    }
    case ReduceKind::prod: {
      // A factor's slope is the product of the others: y / x, or of a zero the product of what is not zero, times the
      // other zero if there is one, so that the slope has a slope, too.
      const Tensor zero = x == 0, zeros = sum(cast(zero, x.dtype()), op.axes), factors = where(zero, 1, x);
      const Tensor other_zero = sum(where(zero, x, 0), op.axes) - x;
      const Tensor of_zero = where(zeros == 1, 1, where(zeros == 2, other_zero, 0)) * prod(factors, op.axes);
      return {g * where(zero, of_zero, y / factors)};
    }
    case ReduceKind::argmax:
    case ReduceKind::argmin:
      break;
  }
  return {{}};
}

}  // namespace nixie
