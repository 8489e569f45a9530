// Ops made of other ops: CPU, CUDA, gradient and fusion come from their parts.
#include <algorithm>

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

namespace {

// a - b, 0 for an infinity and itself.
const Elementwise distance_op{"distance", [](auto a, auto b) { return select(a == b, 0, a - b); },
                              [](const Tensor& g, const Tensor&, const Tensor&, const Tensor&) {
                                return Gradients{g, -g};
                              }};

// A sum that is f32 of halves, also where it is stored between two kernels.
Tensor wide_sum(const Tensor& x, const Axes& axes) {
  return sum(x.dtype() == Dtype::f64 ? x : retype(x, Dtype::f32), axes);
}

}  // namespace

Tensor softmax(const Tensor& logits, const Axes& axes) {
  const Tensor x = floating(logits), e = exp(x - stop_gradient(max(x, axes)));
  return retype(e / wide_sum(e, axes), x.dtype());
}

// Its gradient takes infinities for equal numbers beyond all others: {1, 0} for {inf, 0}, halves for {-inf, -inf}.
Tensor logsumexp(const Tensor& values, const Axes& axes, bool keepdims) {
  const Tensor x = floating(values), top = stop_gradient(max(x, axes));
  const Tensor y = retype(log(wide_sum(exp(distance_op(x, top)), axes)) + top, x.dtype());
  return keepdims ? y : squeeze(y, axes);
}

Tensor less_largest(const Tensor& logits, const Axes& axes) {
  const Tensor x = floating(logits);
  return x - stop_gradient(max(x, axes));
}

Tensor log_softmax(const Tensor& logits, const Axes& axes) {
  const Tensor shifted = less_largest(logits, axes);
  return retype(shifted - log(wide_sum(exp(shifted), axes)), shifted.dtype());
}

Tensor standardize(const Tensor& values, const Axes& axes, double eps) {
  const Tensor x = floating(values);
  return (x - mean(x, axes)) * rsqrt(variance(x, axes) + eps);
}

namespace {

// Sums over windows of channels, of which so many are before a channel. Few shifted values fuse with what makes and
// uses them; pooling takes any number.
Tensor sums_of_channels(const Tensor& x, int window, int window_before) {
  constexpr int kMostShifts = 16;
  // No window reaches further than from the first channel to the last.
  const auto reach = [most = std::max<std::int64_t>(x.shape()[1] - 1, 0)](int channels) {
    return static_cast<int>(std::min<std::int64_t>(channels, most));
  };
  const int before = reach(window_before), after = reach(window - 1 - window_before), size = before + 1 + after;
  std::vector<std::int64_t> low(static_cast<std::size_t>(x.rank()), 0), high = low;
  low[1] = before, high[1] = after;
  const Tensor padded = pad(x, low, high);
  if (size > kMostShifts) return size * average_pool(padded, {.window = {1}, .channels = size, .channel_stride = 1});
  Tensor total;
  for (int first = 0; first < size; ++first) {
    const Tensor shifted = slice(padded, {Index::all(), Index::range(first, first + x.shape()[1])});
    total = total.has_value() ? total + shifted : shifted;
  }
  return total;
}

}  // namespace

Tensor local_response_norm(const Tensor& images, int size, double alpha, double beta, double bias) {
  check(size >= 1, "local_response_norm: size is ", size, ", expected at least 1");
  const Tensor x = floating(images);
  const Tensor total = sums_of_channels(square(x), size, size / 2);
  if (x.dtype() == Dtype::f64) return x * pow(bias + alpha / size * total, -beta);
  return x * pow(static_cast<float>(bias) + static_cast<float>(alpha) / static_cast<float>(size) * total,
                 -static_cast<float>(beta));
}

}  // namespace nixie
