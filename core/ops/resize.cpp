// Resizing: repetition and gathers for nearest; interpolation by products with a small matrix for each axis.
//
// Whole factors have ways of their own: nearest repeats an axis, linear is a depthwise transposed convolution.
#include <algorithm>
#include <cmath>
#include <limits>

#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

/// The elements of an axis of `in` that each element of one of `out` is a weighted sum of: `count` each, [count][out].
struct Taps {
  std::vector<std::int32_t> index;
  std::vector<double> weight;
  std::int64_t in, out;
  std::int64_t count() const { return std::ssize(index) / out; }
};

/// An interpolation's kernel at a distance. Cubic: R. Keys, Cubic convolution interpolation for digital image
/// processing, 1981.
double kernel_at(const ResizeOptions& options, double distance) {
  const double d = std::abs(distance);
  if (options.mode == ResizeMode::linear) return std::max(0.0, 1 - d);
  const double a = options.antialias ? -0.5 : -0.75;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((d - 5) * d + 8) * d * a - 4 * a : 0;
}

Taps nearest_taps(std::int64_t in, std::int64_t out) {
  Taps taps{.index = {}, .weight = {}, .in = in, .out = out};
  for (std::int64_t o = 0; o < out; ++o) taps.index.push_back(static_cast<std::int32_t>(o * in / out));
  return taps;
}

/// Beyond the ends of the axis its last elements are repeated; a wider kernel for antialiasing is cut off there.
Taps interpolation_taps(std::int64_t in, std::int64_t out, const ResizeOptions& options) {
  const double steps = static_cast<double>(options.align_corners ? out - 1 : out);
  const double scale = steps == 0 ? 0 : static_cast<double>(options.align_corners ? in - 1 : in) / steps;
  const double width = options.antialias ? std::max(1.0, scale) : 1;
  const double reach = width * (options.mode == ResizeMode::linear ? 1 : 2);
  const auto count = static_cast<std::int64_t>(std::ceil(2 * reach)) + (options.antialias ? 1 : 0);
  Taps taps{.index = {}, .weight = {}, .in = in, .out = out};
  taps.index.resize(static_cast<std::size_t>(count * out)), taps.weight.resize(taps.index.size());
  for (std::int64_t o = 0; o < out; ++o) {
    const auto at = static_cast<double>(o);
    double place = options.align_corners && !options.antialias ? at * scale : (at + 0.5) * scale - 0.5;
    if (options.mode == ResizeMode::linear && !options.antialias) place = std::max(0.0, place);
    // PyTorch rounds the first element of a wider kernel toward zero.
    const auto first = static_cast<std::int64_t>(options.antialias ? std::max(0.0, std::trunc(place - reach + 1))
                                                                   : std::floor(place) - reach + 1);
    const auto last = static_cast<std::int64_t>(
        options.antialias ? std::min(static_cast<double>(in), std::trunc(place + reach + 1)) : first + count);
    double sum = 0;
    for (std::int64_t i = first; i < last; ++i) sum += kernel_at(options, (static_cast<double>(i) - place) / width);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t i = std::min(first + k, last - 1);
      const auto entry = static_cast<std::size_t>(k * out + o);
      taps.index[entry] = static_cast<std::int32_t>(std::clamp<std::int64_t>(i, 0, in - 1));
      if (first + k < last) taps.weight[entry] = kernel_at(options, (static_cast<double>(i) - place) / width) / sum;
    }
  }
  return taps;
}

Tensor constant(const std::vector<double>& values, const Shape& shape, Dtype dtype) {
  return cast(Array::from(values, shape).to(dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32), dtype);
}

/// A product with the matrix of all weights, [in, out] or [out, in].
Tensor multiplied(const Tensor& x, const Taps& taps, int axis) {
  const bool is_last = axis == x.rank() - 1;
  std::vector<double> matrix(static_cast<std::size_t>(taps.in * taps.out));
  for (std::size_t entry = 0; entry < taps.index.size(); ++entry) {
    const auto from = static_cast<std::int64_t>(taps.index[entry]), to = static_cast<std::int64_t>(entry) % taps.out;
    matrix[static_cast<std::size_t>(is_last ? from * taps.out + to : to * taps.in + from)] += taps.weight[entry];
  }
  std::int64_t before = 1, behind = 1;  // elements of the axes around this one
  for (int i = 1; i < axis; ++i) before *= x.shape()[i];
  for (int i = axis + 1; i < x.rank(); ++i) behind *= x.shape()[i];
  const std::int64_t images = x.shape()[0];
  const Tensor y =
      is_last ? matmul(reshape(x, {images, before, taps.in}), constant(matrix, {taps.in, taps.out}, x.dtype()))
              : matmul(constant(matrix, {taps.out, taps.in}, x.dtype()), reshape(x, {images, before, taps.in, behind}));
  return reshape(y, x.shape().with(axis, taps.out));
}

/// The sum of one gather for each tap: memory linear in the axis.
Tensor gathered(const Tensor& x, const Taps& taps, int axis) {
  const Shape along = Shape(std::vector<std::int64_t>(x.shape().sizes().size(), 1)).with(axis, taps.out);
  Tensor sum;
  for (std::int64_t k = 0; k < taps.count(); ++k) {
    const auto part = [&](const auto& values) {
      return std::vector(values.begin() + k * taps.out, values.begin() + (k + 1) * taps.out);
    };
    const Tensor element = take(x, Tensor(Array::from(part(taps.index), {taps.out})), axis);
    if (taps.weight.empty()) return element;
    const Tensor share = element * constant(part(taps.weight), along, x.dtype());
    sum = k == 0 ? share : sum + share;
  }
  return sum;
}

// Whole factors.
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

/// Renormalisation at the ends: the weights of the neighbours that exist do not sum to 1 there.
std::vector<double> ends(std::int64_t size, int factor) {
  std::vector<double> scale;
  for (std::int64_t i = 0; i < factor * size; ++i) {
    const double position = (static_cast<double>(i) + 0.5) / factor - 0.5, low = std::floor(position);
    const double high_share = position - low;
    scale.push_back(1 / ((low >= 0 ? 1 - high_share : 0) + (low + 1 < static_cast<double>(size) ? high_share : 0)));
  }
  return scale;
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
Tensor spread_linearly(const Tensor& x, const std::vector<int>& factor) {
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

/// By how much each axis grows; empty where one does not by a whole factor.
std::vector<int> whole_factors(const Shape& in, const std::vector<std::int64_t>& sizes) {
  std::vector<int> factors;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t size = in[static_cast<int>(i) + 2];
    if (sizes[i] % size != 0 || sizes[i] / size > std::numeric_limits<int>::max()) return {};
    factors.push_back(static_cast<int>(sizes[i] / size));
  }
  return factors;
}

}  // namespace

Tensor resize(const Tensor& images, const std::vector<std::int64_t>& sizes, const ResizeOptions& options) {
  const bool is_nearest = options.mode == ResizeMode::nearest;
  check(images.rank() >= 3 && images.rank() <= 5, "resize: input is ", images.shape(),
        ", expected [N, C, spatial...] with 1 to 3 spatial axes");
  check(std::ssize(sizes) == images.rank() - 2, "resize: ", sizes.size(), " sizes for input ", images.shape(),
        ", expected one for each spatial axis");
  check(!is_nearest || !(options.align_corners || options.antialias),
        "resize: align_corners and antialias are for linear and cubic, the mode is nearest");
  std::vector<int> axes;
  for (int axis = 2; axis < images.rank(); ++axis) {
    const std::int64_t in = images.shape()[axis], out = sizes[static_cast<std::size_t>(axis) - 2];
    check(in > 0 && out > 0, "resize: axis ", axis, " of ", images.shape(), " to size ", out,
          ", expected sizes of at least 1");
    check(std::max(in, out) <= std::numeric_limits<std::int32_t>::max(), "resize: axis ", axis, " of ", images.shape(),
          " to size ", out, " is longer than i32 counts");
    if (in != out) axes.push_back(axis);
  }
  const Tensor x = is_nearest ? images : floating(images);
  const std::vector<int> factors = whole_factors(x.shape(), sizes);
  if (!factors.empty() && is_nearest) return repeated(x, factors);
  if (!factors.empty() && options.mode == ResizeMode::linear && !options.align_corners && !options.antialias)
    return spread_linearly(x, factors);
  const auto growth = [&](int axis) {
    return static_cast<double>(sizes[static_cast<std::size_t>(axis) - 2]) / static_cast<double>(x.shape()[axis]);
  };
  // Axes that shrink come first: less work for the others.
  std::ranges::stable_sort(axes, {}, growth);
  constexpr std::int64_t kLargestMatrix = 1 << 22;
  Tensor y = x;
  for (const int axis : axes) {
    const std::int64_t in = x.shape()[axis], out = sizes[static_cast<std::size_t>(axis) - 2];
    if (is_nearest)
      y = gathered(y, nearest_taps(in, out), axis);
    else if (in <= kLargestMatrix / out)
      y = multiplied(y, interpolation_taps(in, out, options), axis);
    else
      y = gathered(y, interpolation_taps(in, out, options), axis);
  }
  return y;
}

}  // namespace nixie
