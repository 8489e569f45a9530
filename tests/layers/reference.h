// Arithmetic in double by plain loops for the tests of layers: dense arrays, convolution (checks/terms.h), pooling, and
// derivatives by central differences.
#pragma once

#include "nixie/tests/test.h"

#include "nixie/apps/benchmark/checks/terms.h"
#include "nixie/core/base/array.h"

namespace nixie::reference {

/// A dense row-major array of doubles.
struct Values {
  Shape shape;
  std::vector<double> data;

  Values() = default;
  explicit Values(Shape s) : shape(std::move(s)), data(static_cast<std::size_t>(shape.size()), 0.0) {}
  static Values of(const Array& array) {
    Values values(array.shape());
    values.data = array.to_vector<double>();
    return values;
  }
  double& operator[](std::int64_t i) { return data[static_cast<std::size_t>(i)]; }
  double operator[](std::int64_t i) const { return data[static_cast<std::size_t>(i)]; }
  std::int64_t size() const { return shape.size(); }
};

using Named = std::map<std::string, Values>;
using Function = std::function<Values(const Named& parameters, const Values& x)>;

/// Uniform in [low, high), the same for the same seed.
inline Values draw(const Shape& shape, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 random(seed);
  Values values(shape);
  for (double& value : values.data) value = low + (high - low) * (random() / 4294967296.0);
  return values;
}

/// The values as an f32 array; and rounded as that rounds them.
inline Array to_f32(const Values& values) { return Array::from(values.data, values.shape).to(Dtype::f32); }
inline Values rounded(const Values& values) { return Values::of(to_f32(values)); }

/// A shape as N, C and three spatial sizes, the missing ones 1.
struct Volume {
  std::int64_t n = 1, c = 1, size[3] = {1, 1, 1};
  explicit Volume(const Shape& shape) : n(shape[0]), c(shape[1]) {
    for (int i = 2; i < shape.rank(); ++i) size[i + 3 - shape.rank()] = shape[i];
  }
  bool holds(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return d >= 0 && d < size[0] && h >= 0 && h < size[1] && w >= 0 && w < size[2];
  }
  std::int64_t at(std::int64_t in, std::int64_t ic, std::int64_t d, std::int64_t h, std::int64_t w) const {
    return (((in * c + ic) * size[0] + d) * size[1] + h) * size[2] + w;
  }
};

/// One number per spatial axis as three, `fill` in front.
struct Triple {
  int value[3];
  Triple(const std::vector<int>& given, int fill) : value{fill, fill, fill} {
    for (std::size_t i = 0; i < given.size(); ++i) value[i + 3 - given.size()] = given[i];
  }
  int operator[](int i) const { return value[i]; }
};

/// Calls function(d, h, w) over a box.
template <class F>
void each_of(const std::int64_t (&size)[3], F&& function) {
  for (std::int64_t d = 0; d < size[0]; ++d)
    for (std::int64_t h = 0; h < size[1]; ++h)
      for (std::int64_t w = 0; w < size[2]; ++w) function(d, h, w);
}

/// The steps of a sliding window along each spatial axis.
struct Window {
  std::vector<int> size, stride, pad, dilation;
};

inline Shape shape_of(std::int64_t n, std::int64_t c, const std::vector<std::int64_t>& spatial) {
  std::vector<std::int64_t> sizes{n, c};
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  return Shape(std::move(sizes));
}

inline void add_bias(Values& y, const Named& parameters) {
  const auto bias = parameters.find("bias");
  if (bias == parameters.end()) return;
  const std::int64_t channels = y.shape[1], inner = y.size() / (y.shape[0] * channels);
  for (std::int64_t i = 0; i < y.size(); ++i) y[i] += bias->second[i / inner % channels];
}

/// The array of a shape that a convolution gives in this role.
inline Values contracted(ConvRole role, const Values& a, const Values& b, const Window& window, int groups,
                         const Shape& result) {
  const Conv op{role, window.stride, window.pad, window.dilation, groups};
  Values y(result);
  for (std::int64_t at = 0; at < y.size(); ++at)
    benchmark::for_each_term(op, a.shape, b.shape, result, at,
                             [&](std::int64_t i, std::int64_t j) { y[at] += a[i] * b[j]; });
  return y;
}

inline Values conv(const Values& x, const Values& w, const Window& window, int groups) {
  std::vector<std::int64_t> spatial;
  for (int i = 0; i < x.shape.rank() - 2; ++i) {
    const auto a = static_cast<std::size_t>(i);
    spatial.push_back(
        (x.shape[i + 2] + 2 * window.pad[a] - window.dilation[a] * (w.shape[i + 2] - 1) - 1) / window.stride[a] + 1);
  }
  return contracted(ConvRole::output, x, w, window, groups, shape_of(x.shape[0], w.shape[0], spatial));
}

/// The input gradient of the convolution the other way.
inline Values deconv(const Values& x, const Values& w, const Window& window, const std::vector<int>& output_pad,
                     int groups) {
  std::vector<std::int64_t> spatial;
  for (int i = 0; i < x.shape.rank() - 2; ++i) {
    const auto a = static_cast<std::size_t>(i);
    spatial.push_back((x.shape[i + 2] - 1) * window.stride[a] - 2 * window.pad[a] +
                      window.dilation[a] * (w.shape[i + 2] - 1) + 1 + output_pad[a]);
  }
  return contracted(ConvRole::input_grad, x, w, window, groups, shape_of(x.shape[0], w.shape[1] * groups, spatial));
}

enum class Pooling { max, average, average_with_pad, l2 };

inline Values pool(const Values& x, Pooling kind, const Window& window, bool ceil_mode = false) {
  const Triple size(window.size, 1), stride(window.stride, 1), pad(window.pad, 0), dilation(window.dilation, 1);
  const Volume vx(x.shape);
  std::vector<std::int64_t> spatial;
  for (int i = 0; i < x.shape.rank() - 2; ++i) {
    const auto a = static_cast<std::size_t>(i);
    const int step = window.dilation.empty() ? 1 : window.dilation[a];
    const std::int64_t room = x.shape[i + 2] + 2 * window.pad[a] - step * (window.size[a] - 1) - 1;
    spatial.push_back((room + (ceil_mode ? window.stride[a] - 1 : 0)) / window.stride[a] + 1);
    if ((spatial.back() - 1) * window.stride[a] >= x.shape[i + 2] + window.pad[a]) --spatial.back();
  }
  Values y(shape_of(vx.n, vx.c, spatial));
  const Volume vy(y.shape);
  const std::int64_t box[3] = {size[0], size[1], size[2]};
  for (std::int64_t n = 0; n < vx.n; ++n)
    for (std::int64_t c = 0; c < vx.c; ++c)
      each_of(vy.size, [&](std::int64_t od, std::int64_t oh, std::int64_t ow) {
        double largest = -std::numeric_limits<double>::infinity(), total = 0, squares = 0;
        int inside = 0;
        each_of(box, [&](std::int64_t kd, std::int64_t kh, std::int64_t kw) {
          const std::int64_t d = od * stride[0] - pad[0] + kd * dilation[0];
          const std::int64_t h = oh * stride[1] - pad[1] + kh * dilation[1];
          const std::int64_t w = ow * stride[2] - pad[2] + kw * dilation[2];
          if (!vx.holds(d, h, w)) return;
          const double value = x[vx.at(n, c, d, h, w)];
          largest = std::max(largest, value);
          total += value;
          squares += value * value;
          ++inside;
        });
        const double all = size[0] * size[1] * size[2];
        y[vy.at(n, c, od, oh, ow)] = kind == Pooling::max                ? largest
                                     : kind == Pooling::l2               ? std::sqrt(squares)
                                     : kind == Pooling::average_with_pad ? total / all
                                                                         : total / inside;
      });
  return y;
}

/// A function of each element.
inline Values map(const Values& x, const std::function<double(double)>& f) {
  Values y = x;
  for (double& value : y.data) value = f(value);
  return y;
}
inline Function elementwise(std::function<double(double)> f) {
  return [f = std::move(f)](const Named&, const Values& x) { return map(x, f); };
}

/// Gates of the channels of [N, C, positions]; `squeeze` and `gate` are the functions.
inline Values gated(const Named& p, const Values& x, double (*squeeze)(double), double (*gate)(double)) {
  const std::int64_t n = x.shape[0], c = x.shape[1], inner = x.size() / (n * c), hidden = p.at("fc1.bias").size();
  Values y = x;
  for (std::int64_t s = 0; s < n; ++s) {
    std::vector<double> middle;
    for (std::int64_t h = 0; h < hidden; ++h) {
      double sum = p.at("fc1.bias")[h];
      for (std::int64_t i = 0; i < c * inner; ++i)
        sum += p.at("fc1.weight")[h * c + i / inner] * x[s * c * inner + i] / static_cast<double>(inner);
      middle.push_back(squeeze(sum));
    }
    for (std::int64_t i = 0; i < c * inner; ++i) {
      double sum = p.at("fc2.bias")[i / inner];
      for (std::int64_t h = 0; h < hidden; ++h)
        sum += p.at("fc2.weight")[i / inner * hidden + h] * middle[static_cast<std::size_t>(h)];
      y[s * c * inner + i] *= gate(sum);
    }
  }
  return y;
}

/// d loss / d values[i] for each i, by central differences with an error of order step^4.
inline std::vector<double> differences(Values& values, const std::function<double()>& loss, double step = 1e-3) {
  std::vector<double> result;
  for (double& value : values.data) {
    const double at = value;
    auto with = [&](double shift) {
      value = at + shift * step;
      const double y = loss();
      value = at;
      return y;
    };
    result.push_back((8 * (with(1) - with(-1)) - (with(2) - with(-2))) / (12 * step));
  }
  return result;
}

}  // namespace nixie::reference
