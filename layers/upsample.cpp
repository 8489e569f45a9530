// Repetition adds an axis and merges it; interpolation is linear, so it is a matrix product per axis.
#include "nixie/layers/upsample.h"

#include <algorithm>

namespace nixie {
namespace {

Tensor repeated(const Tensor& x, const std::vector<int>& factor) {
  const Shape& shape = x.shape();
  const std::int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
  const Tensor apart = reshape(x, {n, c, h, 1, w, 1});
  return reshape(broadcast_to(apart, {n, c, h, factor[0], w, factor[1]}), {n, c, h * factor[0], w * factor[1]});
}

/// [factor * size, size]: the weights of the pixels of a line in each pixel of the larger line.
Tensor interpolation(std::int64_t size, int factor) {
  Array weights(Dtype::f32, {factor * size, size});
  const auto at = weights.data<float>();
  for (std::int64_t i = 0; i < factor * size; ++i) {
    const double position = std::max((static_cast<double>(i) + 0.5) / factor - 0.5, 0.0);
    const auto low = static_cast<std::int64_t>(position), high = std::min(low + 1, size - 1);
    const auto share = static_cast<float>(position - static_cast<double>(low));
    at[static_cast<std::size_t>(i * size + low)] += 1 - share;
    at[static_cast<std::size_t>(i * size + high)] += share;
  }
  return weights;
}

}  // namespace

Forward Upsample::build(const Shape& in, Parameters&) const {
  check_input(in, 2);
  check(mode == "nearest" || mode == "bilinear", "mode is ", mode, ", expected nearest or bilinear");
  return [factor = factor.expand(2, "factor"), is_nearest = mode == "nearest"](const Tensor& x, Pass&) {
    check_input(x.shape(), 2);
    if (is_nearest) return repeated(x, factor);
    const Tensor down = interpolation(x.shape()[2], factor[0]), across = interpolation(x.shape()[3], factor[1]);
    return matmul(down, matmul(x, across, {.trans_b = true}));
  };
}

}  // namespace nixie
