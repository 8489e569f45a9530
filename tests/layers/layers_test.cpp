// Every layer against a plain-loop reference in double: values, gradients and shapes.
#include "nixie/tests/errors.h"
#include "nixie/tests/layers/composite_cases.h"

namespace nixie {
namespace {

using reference::elementwise;
using reference::Named;
using reference::Pooling;
using reference::Values;

Values linear(const Named& p, const Values& x) {
  const Values& w = p.at("weight");
  Values y(Shape{x.shape[0], w.shape[0]});
  for (std::int64_t n = 0; n < x.shape[0]; ++n)
    for (std::int64_t o = 0; o < w.shape[0]; ++o)
      for (std::int64_t i = 0; i < w.shape[1]; ++i)
        y[n * w.shape[0] + o] += x[n * w.shape[1] + i] * w[o * w.shape[1] + i];
  reference::add_bias(y, p);
  return y;
}

reference::Function conv(reference::Window window, int groups = 1) {
  return [=](const Named& p, const Values& x) {
    Values y = reference::conv(x, p.at("weight"), window, groups);
    reference::add_bias(y, p);
    return y;
  };
}

reference::Function deconv(reference::Window window, std::vector<int> output_pad, int groups = 1) {
  return [=](const Named& p, const Values& x) {
    Values y = reference::deconv(x, p.at("weight"), window, output_pad, groups);
    reference::add_bias(y, p);
    return y;
  };
}

reference::Function pool(Pooling kind, reference::Window window, bool ceil_mode = false) {
  return [=](const Named&, const Values& x) { return reference::pool(x, kind, window, ceil_mode); };
}

reference::Function global(Pooling kind) {
  return [=](const Named&, const Values& x) {
    std::vector<int> all(x.shape.begin() + 2, x.shape.end()), ones(all.size(), 1), zeros(all.size(), 0);
    return reference::pool(x, kind, {all, ones, zeros, {}});
  };
}

// The mean of part (i, j) of rows x columns parts, as PyTorch's documentation has their ends.
reference::Function adaptive(std::int64_t rows, std::int64_t columns) {
  return [=](const Named&, const Values& x) {
    const std::int64_t planes = x.shape[0] * x.shape[1], h = x.shape[2], w = x.shape[3];
    Values y(Shape{x.shape[0], x.shape[1], rows, columns});
    std::int64_t at = 0;
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          double sum = 0, count = 0;
          for (std::int64_t r = i * h / rows; r < ((i + 1) * h + rows - 1) / rows; ++r)
            for (std::int64_t c = j * w / columns; c < ((j + 1) * w + columns - 1) / columns; ++c, ++count)
              sum += x[(plane * h + r) * w + c];
          y[at++] = sum / count;
        }
    return y;
  };
}

reference::Function reshaped(Shape shape) {
  return [=](const Named&, const Values& x) {
    Values y = x;
    y.shape = shape;
    return y;
  };
}

// Channel c of [N, C, inner] for each element, and how the reference walks over channels.
struct Channels {
  std::int64_t n, c, inner;
  explicit Channels(const Shape& shape) : n(shape[0]), c(shape[1]), inner(shape.size() / (shape[0] * shape[1])) {}
  std::int64_t at(std::int64_t in, std::int64_t ic, std::int64_t i) const { return (in * c + ic) * inner + i; }
};

Values maxout(const Values& x, int window, int stride, int pad) {
  const Channels from(x.shape);
  Values y(x.shape.with(1, (from.c + 2 * pad - window) / stride + 1));
  const Channels to(y.shape);
  for (std::int64_t n = 0; n < to.n; ++n)
    for (std::int64_t c = 0; c < to.c; ++c)
      for (std::int64_t i = 0; i < to.inner; ++i) {
        double largest = -1e300;
        for (std::int64_t k = 0; k < window; ++k) {
          const std::int64_t at = c * stride - pad + k;
          if (at >= 0 && at < from.c) largest = std::max(largest, x[from.at(n, at, i)]);
        }
        y[to.at(n, c, i)] = largest;
      }
  return y;
}

// Mean and biased variance of each channel.
std::pair<std::vector<double>, std::vector<double>> channel_moments(const Values& x) {
  const Channels over(x.shape);
  const auto count = static_cast<double>(over.n * over.inner);
  std::vector<double> means, variances;
  for (std::int64_t c = 0; c < over.c; ++c) {
    double mean = 0, variance = 0;
    for (std::int64_t n = 0; n < over.n; ++n)
      for (std::int64_t i = 0; i < over.inner; ++i) mean += x[over.at(n, c, i)] / count;
    for (std::int64_t n = 0; n < over.n; ++n)
      for (std::int64_t i = 0; i < over.inner; ++i) variance += std::pow(x[over.at(n, c, i)] - mean, 2) / count;
    means.push_back(mean);
    variances.push_back(variance);
  }
  return {means, variances};
}

reference::Function batch_norm(bool training, double eps) {
  return [=](const Named& p, const Values& x) {
    const auto [mean, variance] =
        training ? channel_moments(x) : std::pair{p.at("running_mean").data, p.at("running_var").data};
    const Channels over(x.shape);
    Values y = x;
    for (std::int64_t j = 0; j < x.size(); ++j) {
      const auto c = static_cast<std::size_t>(j / over.inner % over.c);
      y[j] = (x[j] - mean[c]) / std::sqrt(variance[c] + eps);
      if (p.count("weight")) y[j] = y[j] * p.at("weight").data[c] + p.at("bias").data[c];
    }
    return y;
  };
}

Values lrn(const Values& x, int size, double alpha, double beta, double bias) {
  const Channels over(x.shape);
  Values y = x;
  for (std::int64_t n = 0; n < over.n; ++n)
    for (std::int64_t c = 0; c < over.c; ++c)
      for (std::int64_t i = 0; i < over.inner; ++i) {
        double squares = 0;
        for (std::int64_t k = c - size / 2; k <= c + (size - 1) / 2; ++k)
          if (k >= 0 && k < over.c) squares += std::pow(x[over.at(n, k, i)], 2);
        y[over.at(n, c, i)] = x[over.at(n, c, i)] / std::pow(bias + alpha / size * squares, beta);
      }
  return y;
}

Values softmax(const Values& x) {  // over axis 1
  const Channels over(x.shape);
  Values y = x;
  for (std::int64_t n = 0; n < over.n; ++n)
    for (std::int64_t i = 0; i < over.inner; ++i) {
      double total = 0;
      for (std::int64_t c = 0; c < over.c; ++c) total += std::exp(x[over.at(n, c, i)]);
      for (std::int64_t c = 0; c < over.c; ++c) y[over.at(n, c, i)] = std::exp(x[over.at(n, c, i)]) / total;
    }
  return y;
}

std::vector<LayerCase> contraction_cases() {
  return {
      row("", Linear{.out = 4}, {3, 5}, linear),
      row("", Linear{.out = 1, .bias = false}, {1, 1}, linear),
      row("", Conv1d{.out = 3, .kernel = 3, .stride = 2, .pad = 1}, {2, 2, 9}, conv({{}, {2}, {1}, {1}})),
      row("", Conv1d{.out = 2, .kernel = 2, .dilation = 3, .bias = false}, {1, 3, 7}, conv({{}, {1}, {0}, {3}})),
      row("", Conv2d{.out = 4, .kernel = 3, .pad = 1}, {2, 3, 5, 6}, conv({{}, {1, 1}, {1, 1}, {1, 1}})),
      row("", Conv2d{.out = 2, .kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}, .dilation = {1, 2}}, {2, 2, 6, 7},
          conv({{}, {2, 1}, {1, 0}, {1, 2}})),
      row("", Conv2d{.out = 4, .kernel = 2, .groups = 2}, {2, 4, 3, 3}, conv({{}, {1, 1}, {0, 0}, {1, 1}}, 2)),
      row("", Conv2d{.out = 3, .kernel = 1}, {2, 2, 3, 3}, conv({{}, {1, 1}, {0, 0}, {1, 1}})),
      row("", Conv3d{.out = 2, .kernel = {2, 3, 2}, .stride = {1, 2, 1}, .pad = {0, 1, 1}}, {1, 2, 3, 5, 4},
          conv({{}, {1, 2, 1}, {0, 1, 1}, {1, 1, 1}})),
      row("", Deconv1d{.out = 3, .kernel = 3, .stride = 2, .pad = 1, .output_pad = 1}, {2, 2, 4},
          deconv({{}, {2}, {1}, {1}}, {1})),
      row("", Deconv2d{.out = 3, .kernel = {3, 2}, .stride = 2, .pad = {1, 0}}, {2, 2, 3, 4},
          deconv({{}, {2, 2}, {1, 0}, {1, 1}}, {0, 0})),
      row("", Deconv2d{.out = 4, .kernel = 2, .dilation = 2, .groups = 2, .bias = false}, {1, 2, 3, 3},
          deconv({{}, {1, 1}, {0, 0}, {2, 2}}, {0, 0}, 2)),
      row("output_pad_of_a_dilated_point", Deconv2d{.out = 5, .kernel = 1, .output_pad = 1, .dilation = 2},
          {2, 6, 3, 4}, deconv({{}, {1, 1}, {0, 0}, {2, 2}}, {1, 1})),
      row("output_pad_of_a_dilated_point_of_one_channel",
          Deconv2d{.out = 3, .kernel = 1, .output_pad = {0, 1}, .dilation = 2}, {2, 1, 3, 4},
          deconv({{}, {1, 1}, {0, 0}, {2, 2}}, {0, 1})),
      row("", Deconv3d{.out = 2, .kernel = 2, .stride = {1, 2, 2}}, {1, 2, 2, 3, 2},
          deconv({{}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}}, {0, 0, 0})),
  };
}

std::vector<LayerCase> pool_cases() {
  std::vector<LayerCase> cases{
      row("", MaxPool1d{.window = 3, .stride = 2, .pad = 1}, {2, 2, 8}, pool(Pooling::max, {{3}, {2}, {1}, {}})),
      row("", MaxPool2d{}, {2, 3, 4, 6}, pool(Pooling::max, {{2, 2}, {2, 2}, {0, 0}, {}})),
      row("", MaxPool2d{.window = 3, .stride = 2}, {1, 2, 7, 8}, pool(Pooling::max, {{3, 3}, {2, 2}, {0, 0}, {}})),
      row("", MaxPool2d{.window = {3, 2}, .stride = {2, 3}, .pad = {1, 0}, .ceil_mode = true}, {2, 2, 6, 6},
          pool(Pooling::max, {{3, 2}, {2, 3}, {1, 0}, {}}, true)),
      row("", MaxPool3d{.window = {1, 2, 2}}, {1, 2, 2, 4, 4},
          pool(Pooling::max, {{1, 2, 2}, {1, 2, 2}, {0, 0, 0}, {}})),
      row("", AvgPool1d{.window = 3, .stride = 1, .pad = 1}, {2, 2, 5},
          pool(Pooling::average_with_pad, {{3}, {1}, {1}, {}})),
      row("", AvgPool2d{.window = 3, .stride = 2, .pad = 1, .count_pad = false}, {2, 2, 6, 5},
          pool(Pooling::average, {{3, 3}, {2, 2}, {1, 1}, {}})),
      row("", AvgPool2d{.window = 2, .ceil_mode = true, .count_pad = false}, {1, 2, 5, 5},
          pool(Pooling::average, {{2, 2}, {2, 2}, {0, 0}, {}}, true)),
      row("", AvgPool3d{.window = 2}, {1, 2, 4, 2, 3},
          pool(Pooling::average_with_pad, {{2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {}})),
      row("", L2Pool2d{.window = 2}, {2, 2, 4, 4}, pool(Pooling::l2, {{2, 2}, {2, 2}, {0, 0}, {}})),
      row("", L2Pool2d{.window = 3, .stride = 2, .pad = 1}, {1, 2, 5, 5},
          pool(Pooling::l2, {{3, 3}, {2, 2}, {1, 1}, {}})),
      row("", MaxPool1d{.window = 3, .stride = 1, .dilation = 2}, {2, 2, 8}, pool(Pooling::max, {{3}, {1}, {0}, {2}})),
      row("", AvgPool1d{.window = 2, .stride = 1, .dilation = 3}, {2, 2, 8},
          pool(Pooling::average, {{2}, {1}, {0}, {3}})),
      row("", L2Pool1d{.window = 2, .stride = 2, .dilation = 2}, {2, 2, 8}, pool(Pooling::l2, {{2}, {2}, {0}, {2}})),
      row("", GlobalAvgPool{}, {2, 3, 4, 5}, global(Pooling::average)),
      row("", GlobalAvgPool{}, {2, 3, 1, 1}, global(Pooling::average)),
      row("all", AdaptiveAvgPool2d{}, {2, 3, 4, 5}, adaptive(1, 1)),
      row("of its own size", AdaptiveAvgPool2d{.out = {4, 5}}, {2, 3, 4, 5}, adaptive(4, 5)),
      row("equal parts", AdaptiveAvgPool2d{.out = 2}, {2, 3, 4, 6}, adaptive(2, 2)),
      row("parts that overlap", AdaptiveAvgPool2d{.out = {3, 2}}, {1, 2, 7, 5}, adaptive(3, 2)),
      row("parts that repeat", AdaptiveAvgPool2d{.out = {5, 4}}, {1, 2, 2, 3}, adaptive(5, 4)),
      row("", GlobalMaxPool{}, {2, 3, 4, 5}, global(Pooling::max)),
      row("", GlobalMaxPool{}, {2, 3, 7}, global(Pooling::max)),
      row("", Maxout{}, {3, 6}, [](const Named&, const Values& x) { return maxout(x, 2, 2, 0); }),
      row("", Maxout{.window = 3, .stride = 1, .pad = 1}, {2, 5, 2, 3},
          [](const Named&, const Values& x) { return maxout(x, 3, 1, 1); }),
  };
  for (LayerCase& c : cases) c.step = 1e-5;  // maxima may be close together
  return cases;
}

std::vector<LayerCase> norm_cases() {
  return {
      row("", BatchNorm{}, {4, 3}, batch_norm(false, 1e-5)),
      row("", BatchNorm{}, {2, 3, 4, 5}, batch_norm(false, 1e-5)),
      row("training, [N, C]", BatchNorm{}, {6, 3}, batch_norm(true, 1e-5), true),
      row("training, [N, C, W]", BatchNorm{.eps = 0.1}, {3, 2, 5}, batch_norm(true, 0.1), true),
      row("training, [N, C, H, W]", BatchNorm{}, {2, 3, 4, 5}, batch_norm(true, 1e-5), true),
      row("training without weight and bias", BatchNorm{.affine = false}, {3, 2, 2, 2}, batch_norm(true, 1e-5), true),
      row("", Lrn{.size = 3, .alpha = 0.5, .beta = 0.75, .bias = 2}, {2, 5, 2, 3},
          [](const Named&, const Values& x) { return lrn(x, 3, 0.5, 0.75, 2); }),
      row("", Lrn{.size = 4, .alpha = 1}, {2, 6, 3},
          [](const Named&, const Values& x) { return lrn(x, 4, 1, 0.75, 1); }),
  };
}

std::vector<LayerCase> simple_cases() {
  std::vector<LayerCase> cases{
      row("", Relu{}, {3, 5}, elementwise([](double x) { return x > 0 ? x : 0; })),
      row("", Relu{.slope = 0.25}, {3, 5}, elementwise([](double x) { return x > 0 ? x : 0.25 * x; })),
      row("", ReluClipped{.cut = 0.5}, {4, 5}, elementwise([](double x) { return std::min(std::max(x, 0.0), 0.5); })),
      row("", Sigmoid{}, {3, 5}, elementwise([](double x) { return 1 / (1 + std::exp(-x)); })),
      row("", Tanh{}, {3, 5}, elementwise([](double x) { return std::tanh(x); })),
      row("", Softmax{}, {3, 5}, [](const Named&, const Values& x) { return softmax(x); }),
      row("", Softmax{}, {2, 3, 2, 2}, [](const Named&, const Values& x) { return softmax(x); }),
      row("", Elu{.alpha = 0.5}, {3, 5}, elementwise([](double x) { return x > 0 ? x : 0.5 * std::expm1(x); })),
      row("", Gelu{}, {3, 5}, elementwise([](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); })),
      row("", Identity{}, {3, 5}, elementwise([](double x) { return x; })),
      row("", Flatten{}, {2, 3, 4, 5}, reshaped({2, 60})),
      row("", Flatten{.first = 2}, {2, 3, 4, 5}, reshaped({2, 3, 20})),
      row("", ReshapeTo{.sizes = {4, -1}}, {2, 3, 8}, reshaped({2, 4, 6})),
      row("evaluation", Dropout{}, {3, 5}, elementwise([](double x) { return x; })),
      row("keeps all", Dropout{.rate = 0}, {3, 5}, elementwise([](double x) { return x; }), true),
      row("keeps nothing", Dropout{.rate = 1}, {3, 5}, elementwise([](double) { return 0.0; }), true),
  };
  for (LayerCase& c : cases) c.step = 1e-4;
  return cases;
}

std::vector<LayerCase> container_cases() {
  return {
      row("", Sequential{}, {2, 3}, elementwise([](double x) { return x; })),
      row("", Sequential{{"a", Tanh{}}, {"", Sigmoid{}}}, {2, 3},
          elementwise([](double x) { return 1 / (1 + std::exp(-std::tanh(x))); })),
      row("", SumBranches{{Identity{}, Tanh{}, Sequential{}}}, {2, 3},
          elementwise([](double x) { return 2 * x + std::tanh(x); })),
      row("", ConcatBranches{{Identity{}, Tanh{}}}, {1, 3},
          [](const Named&, const Values& x) {
            Values y(Shape{1, 6});
            for (std::int64_t i = 0; i < 3; ++i) y[i] = x[i], y[i + 3] = std::tanh(x[i]);
            return y;
          }),
      row("", Sequential{{"fc", Linear{.out = 2}}}, {3, 4},
          [](const Named& p, const Values& x) {
            return linear({{"weight", p.at("fc.weight")}, {"bias", p.at("fc.bias")}}, x);
          }),
  };
}

TEST(Layers, Contractions) {
  for (const LayerCase& c : contraction_cases()) check_layer(c);
}
TEST(Layers, Pooling) {
  for (const LayerCase& c : pool_cases()) check_layer(c);
}
TEST(Layers, Normalisation) {
  for (const LayerCase& c : norm_cases()) check_layer(c);
}
TEST(Layers, ActivationsAndShapes) {
  for (const LayerCase& c : simple_cases()) check_layer(c);
}
TEST(Layers, Containers) {
  for (const LayerCase& c : container_cases()) check_layer(c);
}

TEST(Layers, EveryLayerOfTheRegistryHasACase) {
  std::set<std::string> seen{Embedding::name, Shared::name};  // below, and in named_inputs_test.cpp
  for (const auto& cases : {contraction_cases(), pool_cases(), norm_cases(), simple_cases(), container_cases(),
                            composite_layer_cases(), named_input_cases()})
    for (const LayerCase& c : cases) seen.insert(c.layer.kind());
  AllLayers::for_each([&]<class T>() { EXPECT_TRUE(seen.count(T::name)) << T::name; });
}

TEST(Layers, EmbeddingReadsRows) {
  const LayerCase c{"", Embedding{.count = 4, .size = 3}, {2, 3}, [](const Named& p, const Values& x) {
                      Values y(Shape{2, 3, 3});
                      for (std::int64_t i = 0; i < 6; ++i)
                        for (std::int64_t j = 0; j < 3; ++j)
                          y[i * 3 + j] = p.at("weight")[static_cast<std::int64_t>(x[i]) * 3 + j];
                      return y;
                    }};
  LayerRun(c, Array::from(std::vector<std::int32_t>{3, 0, 3, 1, 2, 3}, {2, 3})).expect(c);
}

// Such an id is a mistake of the data: another row would hide it.
TEST(Layers, EmbeddingOfWhatNamesNoRowIsNotANumber) {
  Parameters parameters;
  const Forward forward = Embedding{.count = 4, .size = 2}.build({1, 9}, parameters);
  const auto first_of_rows = [&](const Tensor& ids) {
    Pass pass{};
    const Array rows = evaluate(forward(ids, pass), test_backend()).array();
    std::vector<bool> are_numbers;
    for (std::int64_t i = 0; i < ids.shape().size(); ++i)
      are_numbers.push_back(!std::isnan(rows.to_vector<float>()[static_cast<std::size_t>(2 * i)]));
    return are_numbers;
  };
  EXPECT_EQ(first_of_rows(Array::from(std::vector<float>{0, 3, -1, 4, 2.5f, 1e10f, -0.1f, INFINITY, NAN}, {1, 9})),
            (std::vector<bool>{true, true, false, false, false, false, false, false, false}));
  EXPECT_EQ(first_of_rows(Array::from(std::vector<std::int32_t>{0, 3, -1, 4, INT32_MIN}, {1, 5})),
            (std::vector<bool>{true, true, false, false, false}));
}

TEST(Layers, BatchNormKeepsRunningStatistics) {
  const LayerCase c{"", BatchNorm{.momentum = 0.3}, {2, 3, 4, 5}, batch_norm(true, 1e-5), true};
  const Values x = reference::rounded(reference::draw(c.input, 11));
  LayerRun run(c, reference::to_f32(x));
  const auto [mean, variance] = channel_moments(x);
  const double n = 2 * 4 * 5;
  for (std::size_t i = 0; i < 3; ++i) {
    auto kept = [&](const char* name) { return run.parameters().find(name)->array().to_vector<double>()[i]; };
    auto old = [&](const char* name) { return run.named().at(name).data[i]; };
    EXPECT_NEAR(kept("running_mean"), 0.7 * old("running_mean") + 0.3 * mean[i], 1e-6);
    EXPECT_NEAR(kept("running_var"), 0.7 * old("running_var") + 0.3 * variance[i] * n / (n - 1), 1e-6);
  }
}

TEST(Layers, BatchNormInEvaluationChangesNothing) {
  const LayerCase c{"", BatchNorm{}, {2, 3, 4, 5}, batch_norm(false, 1e-5)};
  LayerRun run(c, reference::to_f32(reference::draw(c.input, 11)));
  for (const char* name : {"running_mean", "running_var"})
    EXPECT_EQ(run.parameters().find(name)->array().to_vector<double>(), run.named().at(name).data);
}

}  // namespace
}  // namespace nixie
