// Scans: cumulative sums, products and extremes, each a loop of its own on every backend.
#include <limits>

#include "nixie/core/ops/gradient_rules.h"
#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

Tensor scan(const Tensor& x, const Scan& op, Dtype dtype) { return Tensor::make(op, {widened(x)}, x.shape(), dtype); }

// The extreme so far: its position, and the element there, whose gradient it takes.
Tensor extreme(const char* name, ReduceKind kind, const Tensor& x, int axis) {
  const int at = x.shape().normal_axis(axis);
  check(x.shape()[at] <= std::numeric_limits<std::int32_t>::max(), name, ": axis ", at, " of ", x.shape(),
        " has more positions than i32 counts");
  return take_along_axis(x, scan(x, {.kind = kind, .axis = at}, Dtype::i32), at);
}

}  // namespace

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
  switch (op.kind) {
    case ReduceKind::sum:
      return {cumsum(g, op.axis, back)};
    case ReduceKind::prod: {
      // A factor's slope is the sum over the products it is in, each divided by it; the first zero's is that of the
      // products without it, and those of factors behind it are 0.
      const Tensor zero = x == 0;
      const Tensor zeros = cumsum(cast(zero, Dtype::i32), op.axis, {.reverse = op.reverse});
      const Tensor first = logical_and(zero, zeros == 1), factors = where(zeros == 0, x, 1);
      const Tensor others = cumprod(where(first, 1, x), op.axis, forward);
      return {where(first, cumsum(g * others, op.axis, back),
                    where(zeros == 0, cumsum(g * y, op.axis, back) / factors, 0))};
    }
    case ReduceKind::max:
    case ReduceKind::min:
    case ReduceKind::argmax:
    case ReduceKind::argmin:
    case ReduceKind::mean:
    case ReduceKind::m2:
      break;
  }
  return {{}};
}

}  // namespace nixie
