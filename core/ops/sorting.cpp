// Sorting: positions in order, which each backend computes in a loop of its own; values are gathered by them.
#include <bit>

#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

// The first `count` positions in order.
Tensor first_in_order(const Tensor& x, int axis, std::int64_t count, bool descending) {
  check(x.shape()[axis] <= std::int64_t{1} << 30, "argsort: axis ", axis, " of ", x.shape(), " is longer than 2^30");
  return Tensor::make(ArgSort{axis, descending}, {widened(x)}, x.shape().with(axis, count), Dtype::i32);
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

}  // namespace nixie
