// Repetition is an axis of its own; interpolation spreads each pixel with fixed weights: a depthwise transposed
// convolution.
#include "nixie/layers/upsample.h"

#include <cmath>

namespace nixie {
namespace {

Tensor repeated(const Tensor& x, const std::vector<int>& factor) {
  std::vector<std::int64_t> apart = {x.shape()[0], x.shape()[1]}, repeats = apart, larger = apart;
  for (std::size_t i = 0; i < factor.size(); ++i) {
    const std::int64_t size = x.shape()[static_cast<int>(i) + 2];
    apart.insert(apart.end(), {size, 1});
    repeats.insert(repeats.end(), {size, factor[i]});
    larger.push_back(size * factor[i]);
  }
  return reshape(broadcast_to(reshape(x, apart), Shape(repeats)), larger);
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

/// The product of one line of weights for each axis, in the last axis fastest.
std::vector<double> outer_product(const std::vector<std::vector<double>>& lines) {
  std::vector<double> product = {1};
  for (const std::vector<double>& line : lines) {
    std::vector<double> longer;
    for (const double weight : product)
      for (const double next : line) longer.push_back(weight * next);
    product = std::move(longer);
  }
  return product;
}

/// A transposed convolution, channel by channel, by a filter that is the product of one for each axis.
Tensor interpolated(const Tensor& x, const std::vector<int>& factor) {
  const Shape& shape = x.shape();
  std::vector<std::vector<double>> lines;
  std::vector<std::int64_t> one = {1, 1}, each = {shape[1], 1};
  ConvOptions options{.stride = factor, .pad = {}, .groups = static_cast<int>(shape[1])};
  for (const int f : factor) {
    lines.push_back(spread(f));
    one.push_back(std::ssize(lines.back()));
    each.push_back(std::ssize(lines.back()));
    options.pad.push_back((f - f % 2) / 2);
  }
  const Tensor filter = broadcast_to(constant(outer_product(lines), Shape(one), x.dtype()), Shape(each));
  Tensor y = deconv(x, filter, options);
  for (std::size_t i = 0; i < factor.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
    sizes[i + 2] = factor[i] * shape[axis];
    y = y * constant(ends(shape[axis], factor[i]), Shape(sizes), x.dtype());
  }
  return y;
}

}  // namespace

Forward Upsample::build(const Shape& in, Parameters&) const {
  check(in.rank() >= 3 && in.rank() <= 5, "input is ", in, ", expected [N, C, spatial...]");
  check(mode != "bilinear" || in.rank() == 4, "mode is bilinear for input ", in, ", expected linear");
  const int spatial = in.rank() - 2;
  return [=, factor = factor.expand(spatial, "factor"), is_nearest = mode == "nearest"](const Tensor& x, const Pass&) {
    check_input(x.shape(), spatial);
    return is_nearest ? repeated(x, factor) : interpolated(x, factor);
  };
}

}  // namespace nixie
