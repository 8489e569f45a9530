// Layers of doubles keep their digits: no number on the way is a float.
#include "nixie/layers/group_norm.h"
#include "nixie/layers/norm.h"
#include "nixie/layers/upsample.h"
#include "nixie/tests/layers/layer_check.h"

namespace nixie {
namespace {

Array draws(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.size(); ++i) values.push_back(std::sin(1.7 * static_cast<double>(i)) + 0.3);
  return Array::from(values, shape);
}

template <class Layer>
std::vector<double> output_of(const Layer& layer, const Array& x, bool training) {
  Parameters parameters(1, Dtype::f64);
  const Forward forward = layer.build(x.shape(), parameters);
  const auto run = [&](bool trains) {
    Step step(test_backend(), [&](const Inputs& in) {
      Pass pass{.training = trains};
      return Outputs{{"y", forward(in["x"], pass)}};
    });
    return step({{"x", x}}).at("y").template to_vector<double>();
  };
  const std::vector<double> trained = run(true);
  return training ? trained : run(false);
}

void expect_digits(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-14) << "at " << i;
}

struct Moments {
  double mean = 0, squares = 0;
};
Moments moments(const std::vector<double>& values) {
  Moments m;
  for (const double v : values) m.mean += v / static_cast<double>(values.size());
  for (const double v : values) m.squares += (v - m.mean) * (v - m.mean);
  return m;
}

TEST(Doubles, BatchNorm) {
  const Array x = draws({6, 1});
  const std::vector<double> values = x.to_vector<double>();
  const Moments m = moments(values);
  std::vector<double> trained, evaluated;
  for (const double v : values) {
    trained.push_back((v - m.mean) / std::sqrt(m.squares / 6 + 0.1));
    evaluated.push_back((v - 0.3 * m.mean) / std::sqrt(0.7 + 0.3 * m.squares / 5 + 0.1));
  }
  const BatchNorm layer{.eps = 0.1, .momentum = 0.3};
  expect_digits(output_of(layer, x, true), trained);
  expect_digits(output_of(layer, x, false), evaluated);
}

TEST(Doubles, LayerAndGroupNorm) {
  const Array x = draws({1, 6});
  const std::vector<double> values = x.to_vector<double>();
  const Moments m = moments(values);
  std::vector<double> expected;
  for (const double v : values) expected.push_back((v - m.mean) / std::sqrt(m.squares / 6 + 0.1));
  expect_digits(output_of(LayerNorm{.eps = 0.1}, x, true), expected);
  expect_digits(output_of(GroupNorm{.groups = 1, .eps = 0.1}, x, true), expected);
}

TEST(Doubles, Lrn) {
  const Array x = draws({1, 3, 1, 1});
  const std::vector<double> v = x.to_vector<double>();
  std::vector<double> expected;
  for (std::size_t i = 0; i < 3; ++i) {
    double total = 0;
    for (std::size_t j = i == 0 ? 0 : i - 1; j < std::min<std::size_t>(3, i + 2); ++j) total += v[j] * v[j];
    expected.push_back(v[i] * std::pow(0.7 + 0.1 / 3 * total, -0.35));
  }
  expect_digits(output_of(Lrn{.size = 3, .alpha = 0.1, .beta = 0.35, .bias = 0.7}, x, true), expected);
}

TEST(Doubles, BilinearUpsampling) {
  const Array x = draws({1, 1, 1, 3});
  const std::vector<double> v = x.to_vector<double>();
  std::vector<double> expected;
  for (int i = 0; i < 9; ++i) {  // by 3: positions a third apart
    const double at = (i + 0.5) / 3 - 0.5, low = std::floor(at), share = at - low;
    const auto value = [&](double k) { return v[static_cast<std::size_t>(std::clamp(k, 0.0, 2.0))]; };
    expected.push_back((1 - share) * value(low) + share * value(low + 1));
  }
  std::vector<double> rows;
  for (int row = 0; row < 3; ++row) rows.insert(rows.end(), expected.begin(), expected.end());
  expect_digits(output_of(Upsample{.factor = 3, .mode = "bilinear"}, x, true), rows);
}

}  // namespace
}  // namespace nixie
