// Scatters that replace, multiply and take extremes, against the loops of numpy's ufunc.at.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr double kNan = NAN;

using Op = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, int);

TEST(Scatter, EqualsALoopOverTheUpdates) {
  const struct {
    const char* what;
    Op op;
    std::function<double(double, double)> at;
  } kOps[] = {
      {"scatter", scatter, [](double, double y) { return y; }},
      {"scatter_mul", scatter_mul, [](double x, double y) { return x * y; }},
      {"scatter_max", scatter_max, [](double x, double y) { return std::max(x, y); }},
      {"scatter_min", scatter_min, [](double x, double y) { return std::min(x, y); }},
  };
  const std::vector<std::int32_t> indices{4, 0, -1, 2, 4, 0, 0};
  const auto count = static_cast<std::int64_t>(indices.size());
  for (const auto& [what, op, at] : kOps)
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::i64, Dtype::i32, Dtype::i8, Dtype::boolean}) {
      SCOPED_TRACE(fmt::format("{} {}", what, dtype));
      const Array x = random_array({3, 5}, -3, 4, 1).to(Dtype::i32).to(dtype);
      const Array updates = random_array({3, count}, -3, 4, 2).to(Dtype::i32).to(dtype);
      std::vector<double> expected = x.to_vector<double>();
      const std::vector<double> values = updates.to_vector<double>();
      for (std::size_t row = 0; row < 3; ++row)
        for (std::size_t i = 0; i < indices.size(); ++i) {
          double& element = expected[row * 5 + static_cast<std::size_t>((indices[i] + 5) % 5)];
          element = at(element, values[row * indices.size() + i]);
        }
      const Tensor result = op(x, Array::from(indices, {count}), updates, 1);
      EXPECT_EQ(result.dtype(), dtype);
      expect_values(result, expected, 0);
      expect_values(op(x, Array(Dtype::i32, {0}), 1, 1), x.to_vector<double>(), 0);
    }
}

TEST(Scatter, NaNWinsAndIndicesOutOfRangeGiveNoNumber) {
  const Tensor x{1.0, kNan, 3.0};
  expect_values(scatter_max(x, {0, 1, 2}, Tensor{kNan, 5.0, 2.0}), {kNan, kNan, 3}, 0);
  expect_values(scatter_min(x, {0, 1, 2}, Tensor{kNan, 5.0, 2.0}), {kNan, kNan, 2}, 0);
  const Tensor far = Tensor{0, 1} * 5 - 1;  // -1 and 4, known to the backend alone
  for (const Op op : {scatter, scatter_mul, scatter_max, scatter_min})
    expect_values(op(x, far, 1.0, 0), {kNan, kNan, kNan}, 0);
  EXPECT_FAULT(usage, "scatter_max: index 3 is out of range for size 3", scatter_max(x, 3, 1.0));
}

TEST(Scatter, Gradients) {
  const Array x = random_array({4, 3}, 1, 2, 1), y = random_array({3, 3}, 1, 2, 2);
  const Tensor indices{2, 0, 2};
  for (const Op op : {scatter, scatter_mul, scatter_max, scatter_min})
    expect_gradients([&](auto& v) { return square(op(v[0], indices, v[1], 0)); }, {x, y});
  // Products with one zero among the factors of a position, and with two.
  const Array zeros = Array::from(std::vector<double>{0, 2, 0, 4}, {4});
  expect_gradients(
      [](auto& v) {
        return scatter_mul(v[0], {0, 1, 2, 2}, v[1]);
      },
      {zeros, Array::from(std::vector<double>{3, 0, 0, 5}, {4})});
  // Equals share.
  const Tensor a{1.0, 2.0}, b{1.0, 1.0};
  const std::vector<Tensor> slopes = gradients(sum(scatter_max(a, {0, 0}, b)), {a, b});
  expect_values(slopes[0], {1.0 / 3, 1}, 1e-6);
  expect_values(slopes[1], {1.0 / 3, 1.0 / 3}, 1e-6);
}

}  // namespace
}  // namespace nixie
