// Ops made of other ops: CPU, CUDA, gradient and fusion come from their parts.
#include "nixie/core/ops/ops.h"

namespace nixie {

Tensor softmax(const Tensor& x, const Axes& axes) {
  const Tensor e = exp(x - stop_gradient(max(x, axes)));
  return e / sum(e, axes);
}

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdims) {
  const Tensor top = stop_gradient(max(x, axes));
  const Tensor y = log(sum(exp(x - top), axes)) + top;
  return keepdims ? y : squeeze(y, axes);
}

Tensor log_softmax(const Tensor& x, const Axes& axes) { return x - logsumexp(x, axes); }

Tensor standardize(const Tensor& x, const Axes& axes, float eps) {
  return (x - mean(x, axes)) * rsqrt(variance(x, axes) + eps);
}

Tensor local_response_norm(const Tensor& x, int size, float alpha, float beta, float bias) {
  check(size >= 1, "local_response_norm: size is ", size, ", expected at least 1");
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
