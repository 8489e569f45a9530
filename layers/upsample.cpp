// Repetition is an axis of its own; interpolation spreads each pixel with fixed weights: a depthwise transposed
// convolution.
#include "nixie/layers/upsample.h"

#include <cmath>

namespace nixie {
namespace {

Tensor repeated(const Tensor& x, const std::vector<int>& factor) {
  const Shape& shape = x.shape();
  const std::int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3];
  const Tensor apart = reshape(x, {n, c, h, 1, w, 1});
  return reshape(broadcast_to(apart, {n, c, h, factor[0], w, factor[1]}), {n, c, h * factor[0], w * factor[1]});
}

/// The weights of a pixel in those of the larger line, which it is spread to with the factor as stride.
std::vector<double> spread(int factor) {
  const int taps = 2 * factor - factor % 2;
  std::vector<double> weights;
  for (int i = 0; i < taps; ++i) weights.push_back(1 - std::abs(i - 0.5 * (taps - 1)) / factor);
  return weights;
}

/// What makes up for neighbours that a line of this size lacks at its ends: there the weights of those that it has do
/// not sum to 1.
std::vector<double> ends(std::int64_t size, int factor) {
  std::vector<double> scale;
  for (std::int64_t i = 0; i < factor * size; ++i) {
    const double position = (static_cast<double>(i) + 0.5) / factor - 0.5, low = std::floor(position);
    const double high_share = position - low;
    scale.push_back(1 / ((low >= 0 ? 1 - high_share : 0) + (low + 1 < static_cast<double>(size) ? high_share : 0)));
  }
  return scale;
}

Tensor constant(const std::vector<double>& values, const Shape& shape, Dtype dtype) {
  return cast(Array::from(values, shape).to(dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32), dtype);
}

/// A transposed convolution, channel by channel, by a filter that is the product of one for each axis.
Tensor interpolated(const Tensor& x, const std::vector<int>& factor) {
  const Shape& shape = x.shape();
  const std::vector<double> down = spread(factor[0]), across = spread(factor[1]);
  const std::int64_t rows = std::ssize(down), columns = std::ssize(across);
  std::vector<double> weights;
  for (const double row : down)
    for (const double column : across) weights.push_back(row * column);
  const Tensor filter = broadcast_to(constant(weights, {1, 1, rows, columns}, x.dtype()), {shape[1], 1, rows, columns});
  ConvOptions options{.stride = factor, .pad = {}, .groups = static_cast<int>(shape[1])};
  for (const int f : factor) options.pad.push_back((f - f % 2) / 2);
  const auto along = [&](int axis, const Shape& sizes) {
    return constant(ends(shape[axis], factor[static_cast<std::size_t>(axis - 2)]), sizes, x.dtype());
  };
  return deconv(x, filter, options) * along(2, {1, 1, factor[0] * shape[2], 1}) *
         along(3, {1, 1, 1, factor[1] * shape[3]});
}

}  // namespace

Forward Upsample::build(const Shape& in, Parameters&) const {
  check_input(in, 2);
  return [factor = factor.expand(2, "factor"), is_nearest = mode == "nearest"](const Tensor& x, Pass&) {
    check_input(x.shape(), 2);
    return is_nearest ? repeated(x, factor) : interpolated(x, factor);
  };
}

}  // namespace nixie
