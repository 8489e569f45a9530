// Layers that are composites of ops against plain loops in double: normalisation within samples, gates, resampling.
#include "nixie/tests/errors.h"
#include "nixie/tests/layers/composite_cases.h"

namespace nixie {
namespace {

using reference::elementwise;
using reference::Named;
using reference::Pooling;
using reference::Values;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// Runs of `count` neighbouring elements to mean 0 and variance 1; weight and bias by `parameter`, of an element.
reference::Function normalised(std::int64_t count, double eps, std::function<std::int64_t(std::int64_t)> parameter) {
  return [=](const Named& p, const Values& x) {
    Values y = x;
    for (std::int64_t first = 0; first < x.size(); first += count) {
      double mean = 0, variance = 0;
      for (std::int64_t i = first; i < first + count; ++i) mean += x[i] / static_cast<double>(count);
      for (std::int64_t i = first; i < first + count; ++i)
        variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(count);
      for (std::int64_t i = first; i < first + count; ++i) y[i] = (x[i] - mean) / std::sqrt(variance + eps);
    }
    if (p.count("weight"))
      for (std::int64_t i = 0; i < y.size(); ++i)
        y[i] = y[i] * p.at("weight")[parameter(i)] + p.at("bias")[parameter(i)];
    return y;
  };
}

/// The channels of each pixel to mean 0 and variance 1; weight and bias of a channel.
reference::Function normalised_channels() {
  return [](const Named& p, const Values& x) {
    Values y = x;
    const std::int64_t channels = x.shape[1], pixels = x.shape[2] * x.shape[3];
    const auto count = static_cast<double>(channels);
    for (std::int64_t n = 0; n < x.shape[0]; ++n)
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        const auto place = [&](std::int64_t c) { return (n * channels + c) * pixels + pixel; };
        double mean = 0, variance = 0;
        for (std::int64_t c = 0; c < channels; ++c) mean += x[place(c)] / count;
        for (std::int64_t c = 0; c < channels; ++c) variance += (x[place(c)] - mean) * (x[place(c)] - mean) / count;
        for (std::int64_t c = 0; c < channels; ++c)
          y[place(c)] = (x[place(c)] - mean) / std::sqrt(variance + 1e-5) * p.at("weight")[c] + p.at("bias")[c];
      }
    return y;
  };
}

/// y[n, c, i, j] = x[n, c, row(i), column(j)], 0 outside.
Values picked(const Values& x, std::int64_t height, std::int64_t width,
              const std::function<std::int64_t(std::int64_t)>& row,
              const std::function<std::int64_t(std::int64_t)>& column) {
  const std::int64_t h = x.shape[2], w = x.shape[3];
  Values y(Shape{x.shape[0], x.shape[1], height, width});
  for (std::int64_t k = 0; k < y.size(); ++k) {
    const std::int64_t plane = k / (height * width), i = row(k / width % height), j = column(k % width);
    y[k] = i < 0 || i >= h || j < 0 || j >= w ? 0 : x[(plane * h + i) * w + j];
  }
  return y;
}

/// PyTorch's align_corners=False, one pixel at a time.
Values bilinear(const Values& x, int down, int across) {
  const std::int64_t h = x.shape[2], w = x.shape[3], height = h * down, width = w * across;
  Values y(Shape{x.shape[0], x.shape[1], height, width});
  for (std::int64_t k = 0; k < y.size(); ++k) {
    const double v = std::max(0.0, (static_cast<double>(k / width % height) + 0.5) / down - 0.5),
                 u = std::max(0.0, (static_cast<double>(k % width) + 0.5) / across - 0.5);
    const auto i = static_cast<std::int64_t>(v), j = static_cast<std::int64_t>(u);
    const double a = v - static_cast<double>(i), b = u - static_cast<double>(j);
    const auto at = [&](std::int64_t r, std::int64_t c) {
      return x[(k / (height * width) * h + std::min(r, h - 1)) * w + std::min(c, w - 1)];
    };
    y[k] = (1 - a) * ((1 - b) * at(i, j) + b * at(i, j + 1)) + a * ((1 - b) * at(i + 1, j) + b * at(i + 1, j + 1));
  }
  return y;
}

Values shuffled(const Values& x, std::int64_t groups) {
  const std::int64_t c = x.shape[1], inner = x.size() / (x.shape[0] * c), size = c / groups;
  Values y = x;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t channel = i / inner % c;  // `size` channels of each group become `groups` of each member
    const std::int64_t to = channel % size * groups + channel / size;
    y[(i / (inner * c) * c + to) * inner + i % inner] = x[i];
  }
  return y;
}

Values squeeze_excite(const Named& p, const Values& x) {
  return reference::gated(
      p, x, [](double v) { return std::max(0.0, v); }, sigmoid_of);
}

reference::Function prelu(bool per_channel) {
  return [=](const Named& p, const Values& x) {
    Values y = x;
    const std::int64_t inner = x.size() / (x.shape[0] * x.shape[1]);
    for (std::int64_t i = 0; i < x.size(); ++i)
      if (x[i] <= 0) y[i] *= p.at("weight")[per_channel ? i / inner % x.shape[1] : 0];
    return y;
  };
}

/// A convolution of the input with `low` and `high` zeros around it.
reference::Function same_conv(std::vector<std::int64_t> low, std::vector<std::int64_t> high,
                              std::vector<int> dilation) {
  return [=](const Named& p, const Values& x) {
    const Values padded = picked(
        x, x.shape[2] + low[0] + high[0], x.shape[3] + low[1] + high[1], [&](std::int64_t i) { return i - low[0]; },
        [&](std::int64_t j) { return j - low[1]; });
    Values y = reference::conv(padded, p.at("weight"), {{}, {1, 1}, {0, 0}, dilation}, 1);
    reference::add_bias(y, p);
    return y;
  };
}

std::int64_t mirrored(std::int64_t i, std::int64_t pad, std::int64_t size) {
  const std::int64_t at = std::abs(i - pad);
  return at < size ? at : 2 * (size - 1) - at;
}

}  // namespace

std::vector<LayerCase> composite_layer_cases() {
  return {
      row("", LayerNorm{}, {3, 6}, normalised(6, 1e-5, [](std::int64_t i) { return i % 6; })),
      row("", LayerNorm{.eps = 0.1}, {2, 3, 2, 2}, normalised(12, 0.1, [](std::int64_t i) { return i % 12; })),
      row("", LayerNorm{.first = 2}, {2, 3, 5}, normalised(5, 1e-5, [](std::int64_t i) { return i % 5; })),
      row("", LayerNorm{.affine = false}, {3, 4}, normalised(4, 1e-5, {})),
      row("", LayerNorm{.first = 1, .last = 1}, {2, 3, 2, 4}, normalised_channels()),
      row("", LayerNorm{.first = 1, .last = 2, .affine = false}, {2, 3, 4}, normalised(12, 1e-5, {})),
      row("", GroupNorm{.groups = 2}, {2, 4, 3, 2}, normalised(12, 1e-5, [](std::int64_t i) { return i / 6 % 4; })),
      row("", GroupNorm{.groups = 1}, {2, 3, 4}, normalised(12, 1e-5, [](std::int64_t i) { return i / 4 % 3; })),
      row("", GroupNorm{.groups = 2, .affine = false}, {3, 8}, normalised(4, 1e-5, {})),
      row("", GroupNorm{.groups = 4}, {2, 4, 3, 2}, normalised(6, 1e-5, [](std::int64_t i) { return i / 6 % 4; })),
      row("", GroupNorm{.groups = 3, .affine = false}, {2, 6, 1, 3}, normalised(6, 1e-5, {})),
      row("", LeakyRelu{}, {3, 5}, elementwise([](double x) { return x > 0 ? x : 0.01 * x; }), false, 1e-4),
      row("", Prelu{}, {3, 4, 2}, prelu(false), false, 1e-4),
      row("", Prelu{.per_channel = true}, {3, 4, 2, 2}, prelu(true), false, 1e-4),
      row("", Prelu{.per_channel = true}, {3, 4}, prelu(true), false, 1e-4),
      row("", Silu{}, {3, 5}, elementwise([](double x) { return x * sigmoid_of(x); })),
      row("", HardSwish{}, {3, 5}, elementwise([](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; })),
      row("beyond the bends", Sequential{ReshapeTo{.sizes = {5}}, Linear{.out = 3}, HardSwish{}}, {4, 5},
          [](const Named& p, const Values& x) {
            Values y(Shape{4, 3});
            for (std::int64_t i = 0; i < 12; ++i) {
              for (std::int64_t k = 0; k < 5; ++k) y[i] += x[i / 3 * 5 + k] * p.at("1.weight")[i % 3 * 5 + k];
              y[i] += p.at("1.bias")[i % 3];
              y[i] *= std::clamp(y[i] + 3, 0.0, 6.0) / 6;
            }
            return y;
          }),
      row("", Softplus{}, {3, 5}, elementwise([](double x) { return std::log1p(std::exp(x)); })),
      row("", Softplus{.beta = 2}, {3, 5}, elementwise([](double x) { return std::log1p(std::exp(2 * x)) / 2; })),
      row("", Upsample{}, {2, 2, 3, 2},
          [](const Named&, const Values& x) {
            return picked(
                x, 6, 4, [](std::int64_t i) { return i / 2; }, [](std::int64_t j) { return j / 2; });
          }),
      row("", Upsample{.factor = {1, 3}}, {1, 2, 3, 2},
          [](const Named&, const Values& x) {
            return picked(
                x, 3, 6, [](std::int64_t i) { return i; }, [](std::int64_t j) { return j / 3; });
          }),
      row("", Upsample{.mode = "bilinear"}, {2, 2, 3, 4},
          [](const Named&, const Values& x) { return bilinear(x, 2, 2); }),
      row("", Upsample{.factor = {3, 1}, .mode = "bilinear"}, {1, 2, 1, 3},
          [](const Named&, const Values& x) { return bilinear(x, 3, 1); }),
      row("", Upsample{.factor = {4, 5}, .mode = "bilinear"}, {1, 3, 3, 2},
          [](const Named&, const Values& x) { return bilinear(x, 4, 5); }),
      row("to a size", Upsample{.size = {2, 5}}, {1, 2, 3, 2},
          [](const Named&, const Values& x) {
            return picked(
                x, 2, 5, [](std::int64_t i) { return i * 3 / 2; }, [](std::int64_t j) { return j * 2 / 5; });
          }),
      row("to a size, the ends in place", Upsample{.size = 5, .mode = "linear", .align_corners = true}, {1, 2, 3},
          [](const Named&, const Values& x) {
            Values y(Shape{1, 2, 5});
            for (std::int64_t k = 0; k < 10; ++k)
              y[k] = (x[k / 5 * 3 + k % 5 / 2] + x[k / 5 * 3 + (k % 5 + 1) / 2]) / 2;
            return y;
          }),
      row("", PadSides{}, {2, 2, 3, 2},
          [](const Named&, const Values& x) {
            return picked(
                x, 5, 4, [](std::int64_t i) { return i - 1; }, [](std::int64_t j) { return j - 1; });
          }),
      row("", PadSides{.pad = {2, 1}, .mode = "reflect"}, {2, 2, 4, 3},
          [](const Named&, const Values& x) {
            return picked(
                x, 8, 5, [](std::int64_t i) { return mirrored(i, 2, 4); },
                [](std::int64_t j) { return mirrored(j, 1, 3); });
          }),
      row("", ChannelShuffle{}, {2, 6, 2}, [](const Named&, const Values& x) { return shuffled(x, 2); }),
      row("", ChannelShuffle{.groups = 3}, {2, 6, 2, 2}, [](const Named&, const Values& x) { return shuffled(x, 3); }),
      row("", SqueezeExcite{.squeeze = 3}, {2, 4, 3, 2}, squeeze_excite, false, 1e-4),
      row("evaluation", Dropout2d{}, {3, 5, 2}, elementwise([](double x) { return x; })),
      row("keeps nothing", Dropout2d{.rate = 1}, {3, 5}, elementwise([](double) { return 0.0; }), true),
      row("", L2Pool1d{.window = 3, .stride = 1}, {2, 2, 6},
          [](const Named&, const Values& x) {
            return reference::pool(x, Pooling::l2, {{3}, {1}, {0}, {}});
          }),
      row("", L2Pool3d{}, {1, 2, 2, 4, 2},
          [](const Named&, const Values& x) {
            return reference::pool(x, Pooling::l2, {{2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {}});
          }),
      row("odd kernel", Conv2d{.out = 2, .kernel = {3, 5}, .pad = PerAxis::same()}, {2, 2, 4, 5},
          same_conv({1, 2}, {1, 2}, {1, 1})),
      row("even kernel", Conv2d{.out = 2, .kernel = {2, 4}, .pad = PerAxis::same()}, {1, 2, 4, 5},
          same_conv({0, 1}, {1, 2}, {1, 1})),
      row("dilated", Conv2d{.out = 2, .kernel = {2, 3}, .pad = PerAxis::same(), .dilation = {3, 2}}, {1, 2, 4, 5},
          same_conv({1, 2}, {2, 2}, {3, 2})),
  };
}

namespace {

TEST(CompositeLayers, MatchTheirFormulas) {
  for (const LayerCase& c : composite_layer_cases()) check_layer(c);
}

// Their limits, and slopes there: an infinity times 0 is NaN.
TEST(CompositeLayers, ActivationsHaveLimits) {
  const std::vector<float> x{-INFINITY, INFINITY, -1e30f, -100, -89, 0, 89, 3e38f};
  const auto silu = [](double v) { return v < -1e4 ? 0 : v / (1 + std::exp(-v)); };
  const auto slope = [](double v) { return std::abs(v) > 1e4 ? v > 0 : sigmoid_of(v) * (1 + v * sigmoid_of(-v)); };
  const struct {
    AnyLayer layer;
    std::function<double(double)> value, slope;
  } kCases[] = {
      {Silu{}, silu, slope},
      {HardSwish{}, [](double v) { return v < -3  ? 0
                                          : v > 3 ? v
                                                  : v * (v + 3) / 6; },
       [](double v) { return v < -3  ? 0
                             : v > 3 ? 1
                                     : v / 3 + 0.5; }},
      {Gelu{}, [](double v) { return std::max(v, 0.0); }, [](double v) { return v == 0 ? 0.5 : v > 0; }},
      {Softplus{}, [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v))); }, sigmoid_of},
      {Softplus{.beta = 20}, [](double v) { return std::max(v, 0.0) + std::log1p(std::exp(-20 * std::abs(v))) / 20; },
       [](double v) { return sigmoid_of(20 * v); }},
  };
  for (const auto& c : kCases) {
    Parameters parameters;
    const Tensor in = Array::from(x, {1, static_cast<std::int64_t>(x.size())});
    Pass pass;
    const Tensor y = c.layer.build(in.shape(), parameters)(in, pass);
    const std::vector<Tensor> found = evaluate({y, gradients(sum(y), {in})[0]}, test_backend());
    const auto values = found[0].to_vector<float>(), slopes = found[1].to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      SCOPED_TRACE(fmt::format("{} of {}", c.layer.kind(), x[i]));
      const double value = c.value(x[i]), of_slope = c.slope(x[i]), least = 3e-43;  // 100 times a subnormal e^x
      if (std::isinf(value))
        EXPECT_EQ(values[i], value);
      else
        EXPECT_NEAR(values[i], value, 1e-6 * std::abs(value) + least);
      EXPECT_NEAR(slopes[i], of_slope, 1e-6 * std::abs(of_slope) + least);
    }
  }
}

TEST(CompositeLayers, Dropout2dDropsWholeChannels) {
  Parameters parameters;
  const Forward forward = Dropout2d{.rate = 0.25}.build({20, 50, 4}, parameters);
  Pass pass{.step = 3, .seed = 5};
  const std::vector<float> y = evaluate(forward(ones({20, 50, 4}), pass), test_backend()).to_vector<float>();
  double kept = 0;
  for (std::size_t i = 0; i < y.size(); i += 4) {
    ASSERT_TRUE(y[i] == 0 || y[i] == 1 / 0.75f);
    for (std::size_t k = 1; k < 4; ++k) ASSERT_EQ(y[i + k], y[i]);
    kept += y[i] != 0;
  }
  EXPECT_NEAR(kept / 1000, 0.75, 4 * std::sqrt(0.75 * 0.25 / 1000));  // four standard deviations
}

struct Nothing {
  static constexpr const char* name = "nothing";
  static constexpr auto fields() { return field_list(); }
  Forward build(const Shape&, Parameters&) const { return {}; }
};

TEST(CompositeLayers, ALayerWithoutAFunctionIsNamed) {
  EXPECT_EQ(error_of([] {
              Parameters parameters;
              Sequential{Relu{}, Nothing{}}.build({2, 3}, parameters);
            }),
            "1 (nothing): its build returned no function");
}

TEST(CompositeLayers, UpsampleIsResizeWithItsOptions) {
  const Tensor x = reference::to_f32(reference::draw({1, 2, 5, 6}, 9, -1, 1));
  const auto outputs = [&](const Upsample& layer, const ResizeOptions& options) {
    Parameters parameters;
    Pass pass;
    const std::vector<Tensor> found =
        evaluate({layer.build(x.shape(), parameters)(x, pass), resize(x, {3, 7}, options)}, test_backend());
    return std::pair{found[0].to_vector<float>(), found[1].to_vector<float>()};
  };
  for (const bool align : {false, true})
    for (const bool antialias : {false, true})
      for (const auto& [mode, kind] : {std::pair{"bilinear", ResizeMode::linear}, {"bicubic", ResizeMode::cubic}}) {
        const auto [layer, op] = outputs({.size = {3, 7}, .mode = mode, .align_corners = align, .antialias = antialias},
                                         {kind, align, antialias});
        EXPECT_EQ(layer, op) << mode;
      }
}

TEST(CompositeLayers, WhatDoesNotFitIsNamedAtBuild) {
  const auto error = [](const AnyLayer& layer, const Shape& in) {
    return error_of([&] {
      Parameters parameters;
      Sequential{{"at", layer}}.build(in, parameters);
    });
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {error(LayerNorm{.first = 2}, {3, 4}), "at (layer_norm): input is [3, 4], which has no axis 2 to normalise"},
      {error(LayerNorm{.last = 2}, {3, 4}), "at (layer_norm): input is [3, 4], which has no axis 2 to normalise"},
      {error(LayerNorm{.first = 2, .last = 1}, {3, 4, 5}),
       "at (layer_norm): the last axis to normalise, 1, is before the first, 2"},
      {error(GroupNorm{.groups = 3}, {3, 4}), "at (group_norm): 4 channels do not split into 3 groups"},
      {error(Upsample{}, {3, 4}), "at (upsample): input is [3, 4], expected [N, C, spatial...]"},
      {error(Upsample{.mode = "lanczos"}, {1, 1, 2, 2}),
       "at (upsample): mode is lanczos, expected nearest or linear or bilinear or cubic or bicubic"},
      {error(Upsample{.mode = "bicubic"}, {1, 1, 2}),
       "at (upsample): mode is bicubic for input [1, 1, 2], expected cubic"},
      {error(Upsample{.antialias = true}, {1, 1, 2}),
       "at (upsample): align_corners and antialias are for linear and cubic, the mode is nearest"},
      {error(Upsample{.mode = "bilinear"}, {1, 1, 2}),
       "at (upsample): mode is bilinear for input [1, 1, 2], expected linear"},
      {error(PadSides{.mode = "wrap"}, {1, 1, 2, 2}), "at (pad): mode is wrap, expected zero or reflect"},
      {error(PadSides{.pad = 2, .mode = "reflect"}, {1, 1, 2, 2}),
       "at (pad): pad 2 reflects more than input [1, 1, 2, 2] has"},
      {error(ChannelShuffle{.groups = 3}, {1, 4, 2}), "at (channel_shuffle): 4 channels do not split into 3 groups"},
      {error(Conv2d{.out = 2, .stride = 2, .pad = PerAxis::same()}, {1, 1, 4, 4}),
       "at (conv2d): pad is same, which needs stride 1"},
      {error(MaxPool2d{.pad = PerAxis::same()}, {1, 1, 4, 4}), "at (max_pool2d): pad is same, expected numbers"},
  };
  for (const auto& [found, expected] : cases) EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace nixie
