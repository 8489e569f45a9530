// Products whose sums are rounded on the way: values against plain loops bit for bit, gradients, layers' rules,
// refusals.
#include <cmath>

#include "nixie/core/ops/formats.h"
#include "nixie/core/ops/operands.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

/// The nearest number of the format, by division into its steps.
float rounded(float x, const Format& format) {
  if (!std::isfinite(x) || x == 0) return x;
  const int exponent = std::max(std::ilogb(x), 1 - format.bias) - format.mantissa_bits;
  const double y = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(x), -exponent)), exponent);
  if (y > format.largest || y < format.lowest) {
    if (!format.saturating) return std::copysign(INFINITY, x);
    return static_cast<float>(x < 0 ? format.lowest : format.largest);
  }
  return static_cast<float>(y);
}

/// The sum of the products of two lists, by its definition beside RoundedProduct.
float rounded_sum(const std::vector<float>& a, const std::vector<float>& b, const Format& format, std::size_t every) {
  float total = 0;
  for (std::size_t part = 0; part < a.size(); part += 4096) {
    float sum = 0;
    const std::size_t end = std::min<std::size_t>(a.size(), part + 4096);
    for (std::size_t first = part; first < end; first += every) {
      float group = 0;
      for (std::size_t i = first; i < std::min(end, first + every); ++i) group = std::fma(a[i], b[i], group);
      sum = rounded(sum + group, format);
    }
    total = rounded(total + sum, format);
  }
  return total + 0.0F;
}

std::vector<float> values(const Tensor& x) { return evaluate(x, test_backend()).to_vector<float>(); }
Tensor numbers(const Shape& shape, unsigned seed, double size = 2) {
  return testing::random_array(shape, -size, size, seed).to(Dtype::f32);
}

struct Accumulator {
  const char* format;
  int every;
};
constexpr Accumulator kAccumulators[] = {{"f16", 16},  {"e5m10", 32}, {"bf16", 64}, {"e6m9", 16},
                                         {"e4m3", 32}, {"e8m13", 64}, {"int8", 16}};

TEST(RoundedSums, MatricesHaveTheBitsOfPlainLoops) {
  const struct {
    std::int64_t m, n, k;
    double size;
  } rows[] = {{5, 7, 100, 2}, {70, 65, 33, 2}, {1, 3, 16, 2}, {2, 2, 9000, 0.5}, {3, 2, 64, 300}};
  for (const auto& row : rows)
    for (const auto& [name, every] : kAccumulators) {
      const Tensor a = numbers({row.m, row.k}, 1, row.size), b = numbers({row.k, row.n}, 2, row.size);
      const std::vector<float> left = values(a), right = values(b);
      std::vector<float> expected;
      for (std::int64_t i = 0; i < row.m; ++i)
        for (std::int64_t j = 0; j < row.n; ++j) {
          std::vector<float> x, y;
          for (std::int64_t k = 0; k < row.k; ++k) {
            x.push_back(left[static_cast<std::size_t>(i * row.k + k)]);
            y.push_back(right[static_cast<std::size_t>(k * row.n + j)]);
          }
          expected.push_back(rounded_sum(x, y, format_named(name), static_cast<std::size_t>(every)));
        }
      EXPECT_EQ(values(matmul(a, b, {.sums = sums_in(format_named(name), every)})), expected)
          << row.m << "x" << row.n << "x" << row.k << " " << name << " " << every;
      EXPECT_NE(values(matmul(a, b)), expected);
    }
}

TEST(RoundedSums, BatchesAndTransposes) {
  const Sums sums = sums_in(format_named("e5m6"), 16);
  const Tensor a = numbers({3, 4, 40}, 1), b = numbers({2, 1, 5, 40}, 2);
  const Tensor y = matmul(a, b, {.trans_b = true, .sums = sums});
  ASSERT_EQ(y.shape(), (Shape{2, 3, 4, 5}));
  const std::vector<float> left = values(a), right = values(b), found = values(y);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto x = left.begin() + static_cast<std::ptrdiff_t>(i / 5 % 12 * 40),
               w = right.begin() + static_cast<std::ptrdiff_t>((i / 60 * 5 + i % 5) * 40);
    EXPECT_EQ(found[i], rounded_sum({x, x + 40}, {w, w + 40}, format_named("e5m6"), 16)) << i;
  }
}

/// A convolution in plain loops: images of two axes; terms outside count as 0.
struct Layer {
  std::int64_t images, channels, filters, height, width, window, stride, pad, dilation, groups;

  std::int64_t out(std::int64_t in) const { return (in + 2 * pad - dilation * (window - 1) - 1) / stride + 1; }
  /// The element of x that output (p, q) multiplies at a window position; -1 outside.
  std::int64_t x_index(std::int64_t n, std::int64_t c, std::int64_t p, std::int64_t q, std::int64_t tap) const {
    const std::int64_t h = p * stride - pad + tap / window * dilation, w = q * stride - pad + tap % window * dilation;
    if (h < 0 || h >= height || w < 0 || w >= width) return -1;
    return ((n * channels + c) * height + h) * width + w;
  }
  std::int64_t y_index(std::int64_t n, std::int64_t f, std::int64_t p, std::int64_t q) const {
    return ((n * filters + f) * out(height) + p) * out(width) + q;
  }
  std::int64_t w_index(std::int64_t f, std::int64_t c, std::int64_t tap) const {
    return (f * (channels / groups) + c) * window * window + tap;
  }
};

/// Two lists of terms, filled by positions in arrays.
struct Terms {
  const std::vector<float>&a, &b;
  std::vector<float> x = {}, y = {};
  void add(std::int64_t i, std::int64_t j) {
    x.push_back(i < 0 ? 0 : a[static_cast<std::size_t>(i)]);
    y.push_back(j < 0 ? 0 : b[static_cast<std::size_t>(j)]);
  }
};

void compare(const Layer& l, const Accumulator& accumulator) {
  const Format format = format_named(accumulator.format);
  const Variable x("x", numbers({l.images, l.channels, l.height, l.width}, 1).array()),
      w("w", numbers({l.filters, l.channels / l.groups, l.window, l.window}, 2).array());
  const Tensor y = conv(x, w,
                        {.stride = {static_cast<int>(l.stride)},
                         .pad = {static_cast<int>(l.pad)},
                         .dilation = {static_cast<int>(l.dilation)},
                         .groups = static_cast<int>(l.groups),
                         .sums = sums_in(format, accumulator.every)});
  const Tensor slope = numbers(y.shape(), 3);
  const std::vector<Tensor> slopes = gradients(sum(y * slope), {Tensor(x), Tensor(w)});
  const std::vector<float> images = values(x), weights = values(w), dy = values(slope);
  const auto result = [&](const Terms& terms) {
    return rounded_sum(terms.x, terms.y, format, static_cast<std::size_t>(accumulator.every));
  };
  const std::int64_t per_group = l.filters / l.groups, channels = l.channels / l.groups, taps = l.window * l.window;
  std::vector<float> outputs, input_grads(images.size()), filter_grads;
  for (std::int64_t n = 0; n < l.images; ++n)
    for (std::int64_t f = 0; f < l.filters; ++f)
      for (std::int64_t p = 0; p < l.out(l.height); ++p)
        for (std::int64_t q = 0; q < l.out(l.width); ++q) {
          Terms terms{images, weights};
          for (std::int64_t tap = 0; tap < taps; ++tap)
            for (std::int64_t c = 0; c < channels; ++c)
              terms.add(l.x_index(n, f / per_group * channels + c, p, q, tap), l.w_index(f, c, tap));
          outputs.push_back(result(terms));
        }
  for (std::int64_t f = 0; f < l.filters; ++f)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        Terms terms{dy, images};
        for (std::int64_t n = 0; n < l.images; ++n)
          for (std::int64_t p = 0; p < l.out(l.height); ++p)
            for (std::int64_t q = 0; q < l.out(l.width); ++q)
              terms.add(l.y_index(n, f, p, q), l.x_index(n, f / per_group * channels + c, p, q, tap));
        filter_grads.push_back(result(terms));
      }
  for (std::int64_t n = 0; n < l.images; ++n)
    for (std::int64_t c = 0; c < l.channels; ++c)
      for (std::int64_t h = 0; h < l.height; ++h)
        for (std::int64_t v = 0; v < l.width; ++v) {
          const std::int64_t at = ((n * l.channels + c) * l.height + h) * l.width + v;
          Terms terms{dy, weights};
          for (std::int64_t tap = 0; tap < taps; ++tap)
            for (std::int64_t f = c / channels * per_group; f < (c / channels + 1) * per_group; ++f) {
              // The output that reads (h, v) at this tap, if there is one.
              const std::int64_t p = (h + l.pad - tap / l.window * l.dilation) / l.stride,
                                 q = (v + l.pad - tap % l.window * l.dilation) / l.stride;
              const bool reads =
                  p >= 0 && q >= 0 && p < l.out(l.height) && q < l.out(l.width) && l.x_index(n, c, p, q, tap) == at;
              terms.add(reads ? l.y_index(n, f, p, q) : -1, l.w_index(f, c % channels, tap));
            }
          input_grads[static_cast<std::size_t>(at)] = result(terms);
        }
  EXPECT_EQ(values(y), outputs);
  EXPECT_EQ(values(slopes[0]), input_grads);
  EXPECT_EQ(values(slopes[1]), filter_grads);
}

TEST(RoundedSums, ConvolutionsInEachRoleHaveTheBitsOfPlainLoops) {
  const Layer layers[] = {{.images = 2,
                           .channels = 6,
                           .filters = 5,
                           .height = 7,
                           .width = 6,
                           .window = 3,
                           .stride = 1,
                           .pad = 1,
                           .dilation = 1,
                           .groups = 1},
                          {.images = 2,
                           .channels = 3,
                           .filters = 4,
                           .height = 9,
                           .width = 9,
                           .window = 5,
                           .stride = 2,
                           .pad = 2,
                           .dilation = 1,
                           .groups = 1},
                          {.images = 3,
                           .channels = 8,
                           .filters = 12,
                           .height = 6,
                           .width = 6,
                           .window = 3,
                           .stride = 1,
                           .pad = 2,
                           .dilation = 2,
                           .groups = 2},
                          {.images = 4,
                           .channels = 40,
                           .filters = 24,
                           .height = 5,
                           .width = 5,
                           .window = 1,
                           .stride = 1,
                           .pad = 0,
                           .dilation = 1,
                           .groups = 1},
                          {.images = 2,
                           .channels = 1,
                           .filters = 1,
                           .height = 52,
                           .width = 52,
                           .window = 3,
                           .stride = 1,
                           .pad = 1,
                           .dilation = 1,
                           .groups = 1}};
  for (const Layer& layer : layers)
    for (const Accumulator& accumulator : {Accumulator{"e5m10", 32}, Accumulator{"e5m4", 16}}) {
      SCOPED_TRACE(fmt::format("{} channels, window {}, {}", layer.channels, layer.window, accumulator.format));
      compare(layer, accumulator);
    }
}

TEST(RoundedSums, SignalsAndVolumes) {
  // The sums of a window of 1s are small integers: exact in f16, beyond e4m3's 448 in the largest window.
  const Sums f16 = sums_in(format_named("f16"), 16), e4m3 = sums_in(format_named("e4m3"), 16);
  const Tensor line = broadcast_to(Tensor(1.0F), {1, 4, 9}), cube = broadcast_to(Tensor(1.0F), {1, 8, 4, 4, 4});
  EXPECT_EQ(values(conv(line, broadcast_to(Tensor(1.0F), {1, 4, 5}), {.sums = f16})), std::vector<float>(5, 20));
  EXPECT_EQ(values(conv(cube, broadcast_to(Tensor(1.0F), {1, 8, 4, 4, 4}), {.sums = f16})), std::vector<float>{512});
  EXPECT_EQ(values(conv(cube, broadcast_to(Tensor(1.0F), {1, 8, 4, 4, 4}), {.sums = e4m3})), std::vector<float>{256});
}

// A gradient's products have the same accumulators; the rounding itself has slope 1, also where it saturates.
TEST(RoundedSums, GradientsAreRoundedStraightThrough) {
  const Sums sums = sums_in(format_named("e4m3"), 16);
  const Variable a("a", numbers({4, 40}, 1, 30).array()), b("b", numbers({40, 6}, 2, 30).array());
  const Tensor slope = numbers({4, 6}, 3);
  const std::vector<Tensor> slopes = gradients(sum(matmul(a, b, {.sums = sums}) * slope), {Tensor(a), Tensor(b)});
  EXPECT_EQ(values(slopes[0]), values(matmul(slope, b, {.trans_b = true, .sums = sums})));
  EXPECT_EQ(values(slopes[1]), values(matmul(a, slope, {.trans_a = true, .sums = sums})));
}

TEST(RoundedSums, AScopeNamesThoseOfLayers) {
  const Sums sums = sums_in(format_named("e5m4"), 16);
  const Variable w("w", numbers({40, 3}, 1).array());
  const Tensor x = numbers({5, 40}, 2);
  const OperandScope scope({}, [&](const std::string& layer) { return layer == "a" ? sums : Sums(); });
  const auto product_in_layer = [&](const char* layer) {
    const Scope inside(layer);
    return matmul(x, w);
  };
  const Tensor rounded = product_in_layer("a"), plain = product_in_layer("b");
  EXPECT_EQ(values(rounded), values(matmul(x, w, {.sums = sums})));
  EXPECT_NE(values(rounded), values(plain));
  int products = 0;  // of the gradient, too
  for (const Tensor& node : topological({.outputs = gradients(sum(rounded), {Tensor(w)})}))
    products += std::holds_alternative<RoundedProduct>(node.node().op) ? 1 : 0;
  EXPECT_EQ(products, 1);
}

TEST(RoundedSums, Refusals) {
  for (const int every : {0, 8, 48, 128})
    EXPECT_EQ(error_of([&] { sums_in(format_named("f16"), every); }),
              fmt::format("sums: every is {}, expected 16, 32 or 64", every));
  Format wide = format_named("f16");
  wide.mantissa_bits = 23;
  EXPECT_EQ(error_of([&] { sums_in(wide, 16); }), "sums: format f16 has 23 bits of mantissa, expected 1 to 21");
  const Tensor x = cast(numbers({2, 20}, 1), Dtype::f64);
  EXPECT_EQ(error_of([&] { matmul(x, transpose(x), {.sums = sums_in(format_named("f16"), 16)}); }),
            "sums of f64 are not rounded, expected f32 or halves");
}

}  // namespace
}  // namespace nixie
