// Cumulative sums, products and extremes against plain loops, their gradients against central differences.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr double kInf = INFINITY, kNan = NAN;

TEST(Scans, FoldWhatCameBefore) {
  const Tensor x{{3, 1, 2}, {2, 5, 4}}, real = cast(x, Dtype::f64), bytes = cast(x, Dtype::u8);
  const Tensor special{1.0, -kInf, 7.0, kNan, 9.0};
  const struct {
    const char* what;
    Tensor value;
    std::vector<double> expected;
    Dtype dtype;
  } rows[] = {
      {"cumsum", cumsum(real, 1), {3, 4, 6, 2, 7, 11}, Dtype::f64},
      {"cumsum along axis 0", cumsum(real, -2), {3, 1, 2, 5, 6, 6}, Dtype::f64},
      {"cumsum reversed", cumsum(real, 1, {.reverse = true}), {6, 3, 2, 11, 9, 4}, Dtype::f64},
      {"cumsum exclusive", cumsum(real, 1, {.exclusive = true}), {0, 3, 4, 0, 2, 7}, Dtype::f64},
      {"cumsum of both", cumsum(x, 1, {.reverse = true, .exclusive = true}), {3, 2, 0, 9, 4, 0}, Dtype::i32},
      {"cumsum of bytes", cumsum(bytes, 1), {3, 4, 6, 2, 7, 11}, Dtype::u64},
      {"cumsum of bools", cumsum(x > 1, 1), {1, 1, 2, 1, 2, 3}, Dtype::i64},
      {"cumsum of halves", cumsum(cast(x, Dtype::f16), 1), {3, 4, 6, 2, 7, 11}, Dtype::f16},
      {"cumsum of nothing", cumsum(zeros({2, 0}), 1), {}, Dtype::f32},
      {"cumprod", cumprod(real, 1), {3, 3, 6, 2, 10, 40}, Dtype::f64},
      {"cumprod of both", cumprod(x, 1, {.reverse = true, .exclusive = true}), {2, 2, 1, 20, 4, 1}, Dtype::i32},
      {"cummax", cummax(x, 1), {3, 3, 3, 2, 5, 5}, Dtype::i32},
      {"cummin", cummin(real, 1), {3, 1, 1, 2, 2, 2}, Dtype::f64},
      {"cummax of NaN", cummax(special, 0), {1, 1, 7, kNan, kNan}, Dtype::f32},
      {"cummin of NaN", cummin(special, 0), {1, -kInf, -kInf, kNan, kNan}, Dtype::f32},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.what);
    EXPECT_EQ(row.value.dtype(), row.dtype);
    expect_values(row.value, row.expected, 0);
  }
}

// Sums of floats are kept in doubles: a million tenths.
TEST(Scans, LongSumsKeepTheirDigits) {
  const Tensor sums = cumsum(full({1000000}, 0.1), 0);
  expect_values(slice(sums, {Index::range(-1)}), {1e6 * static_cast<double>(0.1f)}, 1e-6);
}

TEST(Scans, Gradients) {
  const Array x = random_array({3, 4}, -2, 2, 1);
  for (const bool reverse : {false, true})
    for (const bool exclusive : {false, true}) {
      const ScanOptions options{reverse, exclusive};
      expect_gradients([=](auto& v) { return square(cumsum(v[0], 1, options)); }, {x});
      expect_gradients([=](auto& v) { return square(cumprod(v[0], 0, options)); }, {x});
    }
  expect_gradients([](auto& v) { return square(cummax(v[0], 1)); }, {x});
  expect_gradients([](auto& v) { return square(cummin(v[0], 0)); }, {x});
  const Array zeros = Array::from(std::vector<double>{2, 0, 3, 0, 5, 1.5, 2, 0, 3, 4}, {2, 5});
  expect_gradients([](auto& v) { return cumprod(v[0], 1); }, {zeros});
  expect_gradients([](auto& v) { return cumprod(v[0], 1, {.reverse = true, .exclusive = true}); }, {zeros});
}

TEST(Scans, SecondGradients) {
  const Tensor x = random_array({4}, 1, 2, 3);
  const std::vector<double> v = values_of(x);
  // The last product is x0 x1 x2 x3; the slope of its slope by x0 is the product of the other two.
  const Tensor last = slice(cumprod(x, 0), {-1}), slope = gradients(last, {x})[0];
  const std::vector<double> second = values_of(gradients(slice(slope, {0}), {x})[0]);
  const std::vector<double> expected{0, v[2] * v[3], v[1] * v[3], v[1] * v[2]};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(second[i], expected[i], 1e-12);
  const Tensor squares = gradients(sum(square(cumsum(x, 0))), {x})[0];
  expect_values(gradients(sum(squares), {x})[0], {20, 18, 14, 8}, 1e-12);
}

}  // namespace
}  // namespace nixie
