// Matrix products, convolution, pooling: gradients of every role in f64, shapes, bad input. Values: tests/backends.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

TEST(Matmul, ShapesAsNumpy) {
  struct Row {
    Shape a, b, result;
    MatmulOptions options = {};
  };
  const Row rows[] = {{{2, 3}, {3, 4}, {2, 4}},
                      {{3, 2}, {3, 4}, {2, 4}, {.trans_a = true}},
                      {{2, 3}, {4, 3}, {2, 4}, {.trans_b = true}},
                      {{3}, {3, 4}, {4}},
                      {{2, 3}, {3}, {2}},
                      {{3}, {3}, {}},
                      {{5, 1, 2, 3}, {4, 3, 2}, {5, 4, 2, 2}},
                      {{0, 3}, {3, 2}, {0, 2}},
                      {{2, 0}, {0, 2}, {2, 2}}};
  for (const Row& row : rows) {
    const Array a = random_array(row.a, -1, 1, 1), b = random_array(row.b, -1, 1, 2);
    EXPECT_EQ(matmul(Tensor(a), Tensor(b), row.options).shape(), row.result);
    if (row.result.size() > 0 && a.size() > 0)
      expect_gradients([&](const std::vector<Tensor>& v) { return square(matmul(v[0], v[1], row.options)); }, {a, b});
  }
  expect_values(matmul(zeros({2, 0}), zeros({0, 2})), {0, 0, 0, 0}, 0);
  EXPECT_FAULT(usage, "matmul: [2, 3] x [2, 3]: inner sizes 3 and 2 differ", matmul(zeros({2, 3}), zeros({2, 3})));
}

struct ConvRow {
  Shape x, w;
  ConvOptions options = {};
};
const ConvRow kConvs[] = {
    {{2, 3, 5}, {4, 3, 3}, {.pad = {1}}},
    {{1, 2, 5, 4}, {3, 2, 3, 2}, {.stride = {2, 1}, .pad = {1, 0}}},
    {{2, 4, 5, 5}, {4, 2, 3, 3}, {.pad = {1}, .groups = 2}},
    {{1, 2, 7, 6}, {2, 2, 2, 3}, {.stride = {2}, .pad = {2}, .dilation = {2, 1}}},
    {{1, 3, 4, 4}, {3, 1, 3, 3}, {.pad = {1}, .groups = 3}},
    {{1, 2, 3, 3, 4}, {2, 2, 2, 2, 2}, {.stride = {1, 1, 2}}},
    {{2, 2, 1, 1}, {3, 2, 1, 1}, {}},
    // Strides and paddings far beyond the image.
    {{1, 2, 5, 4}, {3, 2, 3, 2}, {.stride = {1 << 30}, .pad = {1}}},
    {{2, 2, 1, 1}, {3, 2, 1, 1}, {.stride = {2147483647}, .dilation = {2147483647}}},
    {{1, 1, 3}, {2, 1, 2}, {.stride = {1 << 16}, .pad = {1 << 15}, .dilation = {3}}},
};

TEST(Conv, GradientsOfEveryRole) {
  for (const ConvRow& row : kConvs) {
    SCOPED_TRACE(to_string(row.x));
    const Array x = random_array(row.x, -1, 1, 1), w = random_array(row.w, -1, 1, 2);
    expect_gradients([&](const std::vector<Tensor>& v) { return conv(v[0], v[1], row.options); }, {x, w});
    // Gradients of gradients reach the other two roles.
    expect_gradients(
        [&](const std::vector<Tensor>& v) {
          const auto g = gradients(sum(square(conv(v[0], v[1], row.options))), v);
          return sum(square(g[0])) + sum(square(g[1]));
        },
        {x, w});
  }
}

TEST(Conv, DeconvIsTheTranspose) {
  const Array x = random_array({1, 3, 4, 3}, -1, 1, 1), w = random_array({3, 2, 3, 3}, -1, 1, 2);
  const ConvOptions options{.stride = {2}, .pad = {1}};
  const Tensor y = deconv(Tensor(x), Tensor(w), options, {1, 0});
  EXPECT_EQ(y.shape(), (Shape{1, 2, 8, 5}));
  const Array z = random_array(y.shape(), -1, 1, 3);
  // <deconv(x), z> = <x, conv(z)>
  expect_values(sum(y * Tensor(z)), testing::values_of(sum(Tensor(x) * conv(Tensor(z), Tensor(w), options))), 1e-12);
  expect_gradients([&](const std::vector<Tensor>& v) { return square(deconv(v[0], v[1], options, {1, 0})); }, {x, w});
  // One pixel: no distance between windows matters.
  const Tensor pixel = Tensor(random_array({1, 3, 1, 1}, -1, 1, 4));
  expect_values(deconv(pixel, Tensor(w), {.stride = {1 << 30}}), testing::values_of(deconv(pixel, Tensor(w))), 0);
}

// Black bytes mean -2: a window's values outside the image are 0 all the same, forward and in the filter
// gradient. A filter of ones counts the pixels in a window, an output gradient of ones the windows that see a pixel.
TEST(Conv, PadsBytesAfterTheirNormalisation) {
  struct Layer {
    int size, window, stride, pad;
  };
  for (const Layer& layer : {Layer{32, 3, 1, 1}, {21, 3, 1, 1}, {47, 11, 4, 2}, {40, 11, 4, 5}, {21, 7, 2, 3}})
    for (const std::string& policy : precision_names()) {
      SCOPED_TRACE(fmt::format("{}x{} of {} in {}", layer.window, layer.window, layer.size, policy));
      const int out = (layer.size + 2 * layer.pad - layer.window) / layer.stride + 1;
      const Variable w("w", evaluate(ones({64, 3, layer.window, layer.window}), testing::cpu()).array());
      const Tensor scale(Array::from(std::vector<float>{0.5f, 0.25f, 1}, {1, 3, 1, 1})),
          shift(Array::from(std::vector<float>{-2, -2, -2}, {1, 3, 1, 1}));
      Step step(
          testing::cpu(),
          [&](const Inputs& in) {
            const Tensor y = conv(cast(in["images"], Dtype::f32) * scale + shift, w.value(),
                                  {.stride = {layer.stride}, .pad = {layer.pad}});
            return Outputs{{"y", y}, {"dw", gradients(sum(y), {w.value()})[0]}};
          },
          precision_named(policy));
      Array black(Dtype::u8, {2, 3, layer.size, layer.size});
      std::memset(black.bytes(), 0, static_cast<std::size_t>(black.size_bytes()));
      const Outputs outputs = step({{"images", black}});
      const std::vector<double> y = outputs.at("y").to_vector<double>(), dw = outputs.at("dw").to_vector<double>();
      const auto inside = [&](int position, int tap) {
        const int at = position * layer.stride + tap - layer.pad;
        return at >= 0 && at < layer.size;
      };
      std::vector<int> taps(static_cast<std::size_t>(out)), windows(static_cast<std::size_t>(layer.window));
      for (std::size_t p = 0; p < taps.size(); ++p)
        for (std::size_t r = 0; r < windows.size(); ++r)
          if (inside(static_cast<int>(p), static_cast<int>(r))) ++taps[p], ++windows[r];
      for (std::size_t i = 0; i < y.size(); ++i) {
        const double expected = -6.0 * taps[i / taps.size() % taps.size()] * taps[i % taps.size()];
        ASSERT_NEAR(y[i], expected, 0x1p-8 * std::abs(expected)) << "output " << i;
      }
      for (std::size_t i = 0; i < dw.size(); ++i) {
        const double expected = -4.0 * windows[i / windows.size() % windows.size()] * windows[i % windows.size()];
        ASSERT_NEAR(dw[i], expected, 0x1p-8 * std::abs(expected)) << "filter gradient " << i;
      }
    }
}

TEST(Conv, BadInput) {
  EXPECT_FAULT(usage, "conv: input is [2, 3], expected [N, C, spatial...]", conv(zeros({2, 3}), zeros({4, 3})));
  EXPECT_FAULT(usage, "conv: input is [1, 3, 8, 8], filter is [4, 1, 3, 3]",
               conv(zeros({1, 3, 8, 8}), zeros({4, 1, 3, 3})));
  EXPECT_FAULT(usage, "a window of 3 does not fit input [1, 3, 2, 8] with pad 0",
               conv(zeros({1, 3, 2, 8}), zeros({4, 3, 3, 3})));
  EXPECT_FAULT(usage, "conv: stride is 0, expected at least 1",
               conv(zeros({1, 3, 8, 8}), zeros({4, 3, 3, 3}), {.stride = {0}}));
  EXPECT_FAULT(usage, "stride has 3 numbers, expected 1 or 2",
               conv(zeros({1, 3, 8, 8}), zeros({4, 3, 3, 3}), {.stride = {1, 1, 1}}));
  EXPECT_FAULT(usage, "pad is at most half the window", max_pool(zeros({1, 3, 8, 8}), {.window = {2}, .pad = {2}}));
  EXPECT_FAULT(usage, "a window of 5 does not fit input [1, 3, 3]", max_pool(zeros({1, 3, 3}), {.window = {5}}));
  EXPECT_FAULT(usage, "a window of 5 does not fit input [1, 3, 3]",
               max_pool(zeros({1, 3, 3}), {.window = {5}, .stride = {2}, .ceil_mode = true}));
}

struct PoolRow {
  Shape x;
  PoolOptions options;
  Shape result;
};
const PoolRow kPools[] = {
    {{2, 3, 8}, {.window = {2}}, {2, 3, 4}},
    {{1, 2, 5, 5}, {.window = {3}, .stride = {2}}, {1, 2, 2, 2}},
    {{1, 2, 6, 6}, {.window = {3}, .stride = {2}, .pad = {1}}, {1, 2, 3, 3}},
    {{1, 2, 6, 5}, {.window = {3}, .stride = {2}, .ceil_mode = true}, {1, 2, 3, 2}},
    {{1, 6, 3, 3}, {.window = {1}, .channels = 2}, {1, 3, 3, 3}},
    {{1, 6, 4, 4}, {.window = {2}, .channels = 3, .channel_stride = 1, .channel_pad = 1}, {1, 6, 2, 2}},
    {{1, 1, 4, 3, 5}, {.window = {2, 3, 2}}, {1, 1, 2, 1, 2}},
    {{2, 6}, {.window = {1}, .channels = 3}, {2, 2}},
    {{1, 2, 5, 4}, {.window = {3, 2}, .stride = {2147483647}, .pad = {1}}, {1, 2, 1, 1}},
    {{1, 3, 4},
     {.window = {3}, .stride = {1 << 30}, .channels = 2, .channel_stride = 1 << 30, .ceil_mode = true},
     {1, 1, 1}},
    {{1, 2, 3, 4}, {.window = {5, 3}, .ceil_mode = true}, {1, 2, 1, 2}},
    {{2, 1, 3}, {.window = {6}, .stride = {4}, .pad = {1}, .ceil_mode = true}, {2, 1, 1}},
    {{1, 2, 9, 8}, {.window = {3, 2}, .stride = {2, 1}, .pad = {2, 0}, .dilation = {2, 3}}, {1, 2, 5, 5}},
    {{1, 1, 4, 3, 5}, {.window = {2}, .stride = {1}, .dilation = {3, 2, 2}}, {1, 1, 1, 1, 3}},
    {{2, 1, 9}, {.window = {3}, .stride = {3}, .dilation = {3}, .ceil_mode = true}, {2, 1, 2}},
    {{1, 1, 5}, {.window = {3}, .stride = {1}, .pad = {2147483647}, .dilation = {2147483647}}, {1, 1, 5}},
};

TEST(Pool, ShapesAndGradients) {
  for (const PoolRow& row : kPools) {
    SCOPED_TRACE(to_string(row.x));
    const Array x = random_array(row.x, 0.5, 2, 5);
    EXPECT_EQ(max_pool(Tensor(x), row.options).shape(), row.result);
    expect_gradients([&](const std::vector<Tensor>& v) { return square(max_pool(v[0], row.options)); }, {x});
    expect_gradients([&](const std::vector<Tensor>& v) { return square(average_pool(v[0], row.options)); }, {x});
    PoolOptions counting = row.options;
    counting.count_pad = true;
    expect_gradients([&](const std::vector<Tensor>& v) { return square(average_pool(v[0], counting)); }, {x});
    expect_gradients([&](const std::vector<Tensor>& v) { return l2_pool(v[0], row.options); }, {x});
    expect_gradients(
        [&](const std::vector<Tensor>& v) { return square(gradients(sum(exp(max_pool(v[0], row.options))), v)[0]); },
        {x});
  }
}

// A last window that hangs over divides by the positions up to the end of the padding: PyTorch's numbers.
TEST(Pool, CeilModeAveragesAsPyTorch) {
  const auto count = [](const Shape& shape) {
    std::vector<double> values(static_cast<std::size_t>(shape.size()));
    std::iota(values.begin(), values.end(), 1.0);
    return Array::from(values, shape);
  };
  const struct {
    Shape x;
    PoolOptions options;
    std::vector<double> with_pad, without;
  } kRows[] = {
      {{1, 1, 5}, {.window = {2}, .ceil_mode = true}, {1.5, 3.5, 5}, {1.5, 3.5, 5}},
      {{1, 1, 4}, {.window = {3}, .stride = {2}, .pad = {1}, .ceil_mode = true}, {1, 3, 2}, {1.5, 3, 4}},
      {{1, 1, 6, 5},
       {.window = {3, 2}, .stride = {2, 3}, .pad = {1, 1}, .ceil_mode = true},
       {7 / 6.0, 4, 5.5, 13.5, 10.5, 23.5, 6.5, 14.25},
       {3.5, 6, 11, 13.5, 21, 23.5, 26, 28.5}},
      {{1, 1, 4, 5},
       {.window = {3, 2}, .stride = {2, 2}, .pad = {1, 0}, .ceil_mode = true},
       {8 / 3.0, 4, 5, 11.5, 13.5, 15, 8.25, 9.25, 10},
       {4, 6, 7.5, 11.5, 13.5, 15, 16.5, 18.5, 20}},
      // windows larger than the input
      {{1, 1, 3, 4}, {.window = {5, 3}, .ceil_mode = true}, {6, 8}, {6, 8}},
      {{1, 1, 3}, {.window = {5}, .stride = {3}, .ceil_mode = true}, {2}, {2}},
      {{1, 1, 3}, {.window = {8}, .stride = {4}, .pad = {1}, .ceil_mode = true}, {1.2}, {2}},
  };
  for (auto [shape, options, with_pad, without] : kRows) {
    SCOPED_TRACE(to_string(shape));
    const Array x = count(shape);
    expect_values(average_pool(Tensor(x), options), without, 1e-12);
    options.count_pad = true;
    expect_values(average_pool(Tensor(x), options), with_pad, 1e-12);
    expect_gradients([&](const std::vector<Tensor>& v) { return square(average_pool(v[0], options)); }, {x});
  }
}

// PyTorch's numbers; averages, which it does not dilate, are means of the same positions.
TEST(Pool, DilatedMaximaAsPyTorch) {
  std::vector<double> values;
  for (int i = 0; i < 42; ++i) values.push_back(i * 13 % 29);
  const Array x = Array::from(values, {1, 1, 6, 7});
  const struct {
    PoolOptions options;
    std::vector<double> expected;
  } kRows[] = {
      {{.window = {2}, .stride = {1}, .dilation = {3}}, {22, 25, 26, 22, 26, 27, 23, 26, 20, 21, 27, 28}},
      {{.window = {3, 2}, .stride = {2, 3}, .pad = {1, 1}, .dilation = {2, 4}}, {22, 24, 22, 24}},
      {{.window = {3}, .stride = {3}, .pad = {1}, .dilation = {2}, .ceil_mode = true}, {25, 27, 19, 26, 28, 23}},
  };
  for (const auto& row : kRows) expect_values(max_pool(Tensor(x), row.options), row.expected, 0);
  // A window of padding alone.
  const PoolOptions outside{.window = {2}, .stride = {1}, .pad = {1}, .dilation = {2}};
  expect_values(max_pool(ones({1, 1, 1}), outside), {-std::numeric_limits<double>::infinity()}, 0);
  expect_values(average_pool(ones({1, 1, 1}), outside), {0}, 0);
  EXPECT_FAULT(usage, "max_pool: a window of 7 does not fit input [1, 1, 6, 7]",
               max_pool(Tensor(x), {.window = {2}, .dilation = {6, 7}}));
  EXPECT_FAULT(usage, "pad is at most half the window",
               max_pool(Tensor(x), {.window = {2}, .pad = {2}, .dilation = {2}}));
  EXPECT_FAULT(usage, "max_pool: dilation is 0, expected at least 1", max_pool(Tensor(x), {.dilation = {0}}));
}

// Windows in or beyond their padding against plain loops over what each reads: 2^30 positions cost no more than these.
TEST(Pool, AWindowCostsWhatItReads) {
  constexpr int kLarge = 1 << 30, kMost = 2147483647;
  const PoolOptions rows[] = {
      {.window = {kLarge}, .stride = {1}, .pad = {kLarge / 2}},
      {.window = {kMost}, .stride = {1}, .pad = {kMost / 2}},
      {.window = {kMost, 2},
       .stride = {1},
       .pad = {kMost / 2, 1},
       .channels = kLarge,
       .channel_stride = 1,
       .channel_pad = kLarge / 2},
      {.window = {kMost}, .ceil_mode = true},
      {.window = {kLarge}, .stride = {3}, .pad = {kLarge / 2}, .ceil_mode = true},
      {.window = {kLarge}, .stride = {kLarge / 2 - 1}, .pad = {kLarge / 2}, .ceil_mode = true},
      {.window = {kLarge}, .stride = {kLarge / 2 + 2}, .pad = {kLarge / 2 - 1}, .ceil_mode = true},
      {.window = {65537, 3}, .stride = {2}, .pad = {32768, 1}},
      {.window = {12}, .stride = {2}, .pad = {6}},
      {.window = {6}, .stride = {4}, .pad = {3}, .ceil_mode = true},
      {.window = {9}, .stride = {6}, .pad = {4}, .ceil_mode = true},
      {.window = {5}, .stride = {1}, .pad = {1}, .channels = 3, .channel_stride = 2, .channel_pad = 1},
  };
  std::vector<double> from;  // far enough from each other for differences
  for (int i = 0; i < 60; ++i) from.push_back(0.5 + 37 * i % 60 / 50.0);
  const Array x = Array::from(from, {1, 3, 5, 4});
  const auto at = [](const std::vector<int>& values, std::size_t i) -> std::int64_t {
    return values[values.size() == 1 ? 0 : i];
  };
  for (const PoolOptions& row : rows) {
    SCOPED_TRACE(row.window[0]);
    const Shape y = max_pool(Tensor(x), row).shape();
    // The elements [low, high) of an axis that a window reads, and the positions that it counts with its padding.
    struct Part {
      std::int64_t low, high, counted;
    };
    const auto part_of = [&](int axis, std::int64_t out) -> Part {
      const auto i = static_cast<std::size_t>(axis) - 2;
      const std::int64_t window = axis == 1 ? row.channels : at(row.window, i);
      const std::int64_t pad = axis == 1 ? row.channel_pad : at(row.pad, i), in = x.shape()[axis];
      const std::int64_t stride = axis == 1            ? row.channel_stride ? row.channel_stride : window
                                  : row.stride.empty() ? window
                                                       : at(row.stride, i);
      const std::int64_t begin = out * stride - pad, end = begin + window;
      return {std::max<std::int64_t>(0, begin), std::min(in, end), std::min(end, in + pad) - begin};
    };
    std::vector<double> maxima, means, with_pad, norms;
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const Part c = part_of(1, i / (y[2] * y[3])), h = part_of(2, i / y[3] % y[2]), w = part_of(3, i % y[3]);
      double most = 0, total = 0, squares = 0, count = 0;
      for (std::int64_t k = c.low; k < c.high; ++k)
        for (std::int64_t p = h.low; p < h.high; ++p)
          for (std::int64_t q = w.low; q < w.high; ++q) {
            const double value = from[static_cast<std::size_t>((k * 5 + p) * 4 + q)];
            most = std::max(most, value), total += value, squares += value * value, count += 1;
          }
      maxima.push_back(most), means.push_back(total / count), norms.push_back(std::sqrt(squares));
      with_pad.push_back(total / static_cast<double>(c.counted) / static_cast<double>(h.counted) /
                         static_cast<double>(w.counted));
    }
    PoolOptions counting = row;
    counting.count_pad = true;
    expect_values(max_pool(Tensor(x), row), maxima, 0);
    expect_values(average_pool(Tensor(x), row), means, 1e-12);
    const auto relative = [&](const Tensor& mean) { return mean / Tensor(Array::from(with_pad, y)); };
    expect_values(relative(average_pool(Tensor(x), counting)), std::vector<double>(with_pad.size(), 1.0), 1e-12);
    expect_values(l2_pool(Tensor(x), row), norms, 1e-12);
    expect_gradients([&](const std::vector<Tensor>& v) { return square(max_pool(v[0], row)); }, {x});
    expect_gradients([&](const std::vector<Tensor>& v) { return square(average_pool(v[0], row)); }, {x});
    expect_gradients([&](const std::vector<Tensor>& v) { return relative(average_pool(v[0], counting)); }, {x});
    expect_gradients([&](const std::vector<Tensor>& v) { return l2_pool(v[0], row); }, {x});
  }
  // Positions are numbers in i32.
  const Tensor large = zeros({1, 1, 65536, 65536});
  const Tensor top = max_pool(large, {.window = {65536}});
  EXPECT_FAULT(usage, "max_pool: the gradient of windows over 4294967296 elements, expected at most 2147483647",
               gradients(sum(top), {large}));
}

TEST(Pool, L2OfZerosHasAGradientOfZero) {
  const Tensor x = Array::from(std::vector<double>{0, 0, 3, 4}, {1, 1, 4});
  const Tensor y = l2_pool(x, {.window = {2}});
  expect_values(y, {0, 5}, 0);
  const Tensor gradient = gradients(sum(y), {x})[0];
  expect_values(gradient, {0, 0, 0.6, 0.8}, 1e-15);
  const std::vector<double> twice = testing::values_of(gradients(sum(square(gradient)), {x})[0]);
  for (double value : twice) EXPECT_TRUE(std::isfinite(value));
}

TEST(Pool, LocalResponseNorm) {
  const Array x = random_array({2, 24, 1, 2}, -2, 2, 5);
  // PyTorch's definition by plain loops.
  const auto v = x.to_vector<double>();
  for (const int size : {1, 4, 5, 19, 2147483647}) {  // windows over few channels are sums, others are pooled
    std::vector<double> expected;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const std::int64_t c = i / 2 % 24, low = c - size / 2;
      double total = 0;
      for (std::int64_t d = std::max<std::int64_t>(0, low); d < std::min<std::int64_t>(24, low + size); ++d)
        total += v[static_cast<std::size_t>(i + (d - c) * 2)] * v[static_cast<std::size_t>(i + (d - c) * 2)];
      expected.push_back(v[static_cast<std::size_t>(i)] / std::pow(2 + 0.1 / size * total, 0.75));
    }
    expect_values(local_response_norm(Tensor(x), size, 0.1f, 0.75f, 2), expected, 1e-7);
  }
  expect_gradients([](const std::vector<Tensor>& t) { return local_response_norm(t[0], 4, 0.1f, 0.75f, 1); }, {x});
}

}  // namespace
}  // namespace nixie
