// Sorting and scans, which every backend computes in loops of their own over whole rows: positions in order, by which
// values are gathered; cumulative sums, products and extremes.
#include <bit>
#include <limits>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

// The first `count` positions in order.
Tensor first_in_order(const Tensor& x, int axis, std::int64_t count, bool descending) {
  check(x.shape()[axis] <= std::int64_t{1} << 30, "argsort: axis ", axis, " of ", x.shape(), " is longer than 2^30");
  return Tensor::make(ArgSort{axis, descending}, {as_ordered(widened(x))}, x.shape().with(axis, count), Dtype::i32);
}

Tensor scan(const Tensor& x, const Scan& op, Dtype dtype) { return Tensor::make(op, {widened(x)}, x.shape(), dtype); }

// The extreme so far: its position, and the element there, whose gradient it takes.
Tensor extreme(const char* name, ReduceKind kind, const Tensor& x, int axis) {
  const int at = x.shape().normal_axis(axis);
  check(x.shape()[at] <= std::numeric_limits<std::int32_t>::max(), name, ": axis ", at, " of ", x.shape(),
        " has more positions than i32 counts");
  return take_along_axis(x, scan(as_ordered(x), {.kind = kind, .axis = at}, Dtype::i32), at);
}

}  // namespace

Gradients gradient(const ArgSort&, const Tensor&, const Tensor&, const std::vector<Tensor>&) { return {{}}; }

Tensor argsort(const Tensor& x, int axis, bool descending) {
  return first_in_order(x, x.shape().normal_axis(axis), x.shape()[axis], descending);
}

Tensor sort(const Tensor& x, int axis, bool descending) {
  return take_along_axis(x, argsort(x, axis, descending), axis);
}

Sorted topk(const Tensor& x, std::int64_t k, int axis, bool largest) {
  const int at = x.shape().normal_axis(axis);
  check(k >= 0 && k <= x.shape()[at], "topk: k is ", k, " for axis ", at, " of ", x.shape());
  const Tensor indices = first_in_order(x, at, k, largest);
  return {take_along_axis(x, indices, at), indices};
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  check(sorted.rank() == 1, "searchsorted: the sorted values are ", sorted.shape(), ", expected one axis");
  const std::int64_t size = sorted.shape()[0];
  check(size <= std::int64_t{1} << 30, "searchsorted: ", sorted.shape(), " is longer than 2^30");
  // So many values are before the place. Halving: each round looks at the last of `step` more.
  Tensor before = zeros(values.shape(), Dtype::i32);
  for (std::int64_t step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size))); step > 0;
       step /= 2) {
    const Tensor last = before + (step - 1), seen = take(sorted, minimum(last, size - 1));
    // NaN is larger than every number.
    const Tensor is_below = right ? logical_or(seen <= values, is_nan(values))
                                  : logical_or(seen < values, logical_and(is_nan(values), logical_not(is_nan(seen))));
    before = where(logical_and(last < size, is_below), before + step, before);
  }
  return before;
}

Tensor cumsum(const Tensor& x, int axis, ScanOptions options) {
  return scan(x, {ReduceKind::sum, x.shape().normal_axis(axis), options.reverse, options.exclusive},
              sum_dtype(x.dtype()));
}
Tensor cumprod(const Tensor& x, int axis, ScanOptions options) {
  return scan(x, {ReduceKind::prod, x.shape().normal_axis(axis), options.reverse, options.exclusive},
              sum_dtype(x.dtype()));
}
Tensor cummax(const Tensor& x, int axis) { return extreme("cummax", ReduceKind::argmax, x, axis); }
Tensor cummin(const Tensor& x, int axis) { return extreme("cummin", ReduceKind::argmin, x, axis); }

Gradients gradient(const Scan& op, const Tensor& g, const Tensor& y, const std::vector<Tensor>& inputs) {
  const Tensor& x = inputs[0];
  const ScanOptions forward{op.reverse, op.exclusive}, back{!op.reverse, op.exclusive};
  if (op.kind == ReduceKind::sum) return {cumsum(g, op.axis, back)};
  if (op.kind != ReduceKind::prod) return {{}};  // positions have no gradient
  // A factor's slope is the sum over the products it is in, each divided by it; the first zero's is that of the
  // products without it, and those of factors behind it are 0.
  const Tensor zero = x == 0;
  const Tensor zeros = cumsum(cast(zero, Dtype::i32), op.axis, {.reverse = op.reverse});
  const Tensor first = logical_and(zero, zeros == 1), factors = where(zeros == 0, x, 1);
  const Tensor others = cumprod(where(first, 1, x), op.axis, forward);
  return {
      where(first, cumsum(g * others, op.axis, back), where(zeros == 0, cumsum(g * y, op.axis, back) / factors, 0))};
}

}  // namespace nixie
