// Ops made of other ops: CPU, CUDA, gradient and fusion come from their parts.
#include "nixie/core/ops/ops.h"

namespace nixie {

namespace {

// What exponents are taken relative to, so that they do not overflow; an infinity cannot be subtracted from itself.
Tensor largest_finite(const Tensor& x, const Axes& axes) {
  const Tensor top = stop_gradient(max(x, axes));
  return where(is_finite(top), top, 0);
}

}  // namespace

Tensor softmax(const Tensor& logits, const Axes& axes) {
  const Tensor x = floating(logits), e = exp(x - stop_gradient(max(x, axes)));
  return e / sum(e, axes);
}

Tensor logsumexp(const Tensor& values, const Axes& axes, bool keepdims) {
  const Tensor x = floating(values), top = largest_finite(x, axes);
  const Tensor y = log(sum(exp(x - top), axes)) + top;
  return keepdims ? y : squeeze(y, axes);
}

Tensor log_softmax(const Tensor& logits, const Axes& axes) {
  const Tensor x = floating(logits), shifted = x - largest_finite(x, axes);
  return shifted - log(sum(exp(shifted), axes));
}

Tensor standardize(const Tensor& values, const Axes& axes, float eps) {
  const Tensor x = floating(values);
  return (x - mean(x, axes)) * rsqrt(variance(x, axes) + eps);
}

Tensor local_response_norm(const Tensor& images, int size, float alpha, float beta, float bias) {
  check(size >= 1, "local_response_norm: size is ", size, ", expected at least 1");
  const Tensor x = floating(images);
  // A window over channels alone; the average over the whole window divides by `size` as the formula does.
  const int low = size / 2, high = (size - 1) / 2;
  std::vector<std::int64_t> before(static_cast<std::size_t>(x.rank()), 0), after = before;
  before[1] = low;
  after[1] = high;
  const Tensor squares = pad(square(x), before, after);
  const Tensor average = average_pool(squares, {.window = {1}, .channels = size, .channel_stride = 1});
  return x * pow(bias + alpha * average, -beta);
}

}  // namespace nixie
