// Resizing against recorded values of PyTorch's interpolate (2.15, f64) and finite differences, in every floating type.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

/// -3, 4, 0, 7, 3, ...: numbers that every type holds exactly.
Array pattern(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.size(); ++i) values.push_back(static_cast<double>(i * 7 % 11 - 3));
  return Array::from(values, shape);
}

struct Row {
  Shape x;
  std::vector<std::int64_t> sizes;
  ResizeOptions options;
  std::vector<double> expected;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> table{
      {{1, 1, 5}, {3}, {.mode = ResizeMode::nearest}, {-3, 4, 7}},
      {{1, 1, 3}, {7}, {.mode = ResizeMode::nearest}, {-3, -3, -3, 4, 4, 0, 0}},
      {{1, 1, 2, 3}, {3, 5}, {.mode = ResizeMode::nearest}, {-3, -3, 4, 4, 0, -3, -3, 4, 4, 0, 7, 7, 3, 3, -1}},
      {{1, 1, 2, 2, 3}, {1, 4, 2}, {.mode = ResizeMode::nearest}, {-3, 4, -3, 4, 7, 3, 7, 3}},
      {{1, 1, 4}, {7}, {.mode = ResizeMode::linear}, {-3, -0.5, 3.5, 2, 0.5, 4.5, 7}},
      {{1, 1, 5}, {3}, {.mode = ResizeMode::linear}, {-0.666666667, 0, 4.333333333}},
      {{1, 1, 4}, {7}, {.mode = ResizeMode::linear, .align_corners = true}, {-3, 0.5, 4, 2, 0, 3.5, 7}},
      {{1, 1, 4}, {1}, {.mode = ResizeMode::linear, .align_corners = true}, {-3}},
      {{1, 1, 1}, {3}, {.mode = ResizeMode::linear, .align_corners = true}, {-3, -3, -3}},
      {{1, 1, 3, 4},
       {5, 3},
       {.mode = ResizeMode::linear},
       {-1.833333333, 2, 5.833333333, -0.166666667, 2.2, 4.566666667, 2.333333333, 2.5, 2.666666667, 0.433333333, 2.8,
        -0.333333333, -0.833333333, 3, -2.333333333}},
      {{1, 1, 3, 4},
       {5, 6},
       {.mode = ResizeMode::linear, .align_corners = true},
       {-3,  1.2, 3.2, 0.8, 2.8, 7,   0,   0.9, 1.8,  2.7, 3.6, 4.5, 3,   0.6,  0.4,
        4.6, 4.4, 2,   0.5, 1.4, 2.3, 3.2, 1.9, -0.5, -2,  2.2, 4.2, 1.8, -0.6, -3}},
      {{1, 1, 2, 3},
       {4, 6},
       {.mode = ResizeMode::linear, .align_corners = true},
       {-3,          -0.2,         2.6,         3.2,          1.6,         0,           0.333333333, 1.666666667,
        3,           2.866666667,  1.266666667, -0.333333333, 3.666666667, 3.533333333, 3.4,         2.533333333,
        0.933333333, -0.666666667, 7,           5.4,          3.8,         2.2,         0.6,         -1}},
      {{1, 1, 7, 5},
       {3, 4},
       {.mode = ResizeMode::linear, .antialias = true},
       {-0.125, 2.672619048, 1.672619048, 3.946428571, 2.161764706, 0.946078431, 2.318627451, 1.426470588, 3.339285714,
        1.619047619, 1.077380952, 2.303571429}},
      {{1, 1, 3, 6},
       {5, 2},
       {.mode = ResizeMode::linear, .antialias = true},
       {1.625, 2.625, 1.925, 1.825, 2.375, 0.625, 2.825, 1.9, 3.125, 2.75}},
      {{1, 1, 6, 5},
       {4, 3},
       {.mode = ResizeMode::linear, .align_corners = true, .antialias = true},
       {1.285714286, 2.589285714, 3.678571429, 0.761904762, 2, 3.416666667, 2.232142857, 1.546875, 0.5, 3.742857143,
        2.1, 2.6}},
      {{1, 1, 2, 3, 2},
       {3, 2, 3},
       {.mode = ResizeMode::linear},
       {-2.25, 1.25, 4.75, 2.25, 1.625, 1, 0.875, 2.3125, 3.75, 1.25, 0.625, 0, 4, 3.375, 2.75, 0.25, -0.375, -1}},
      {{1, 1, 2, 3, 2},
       {3, 4, 1},
       {.mode = ResizeMode::linear, .align_corners = true},
       {-3, -1, 1, 3, 1.5, -0.166666667, -0, 2, 6, 0.666666667, -1, 1}},
      {{1, 1, 4, 3},
       {6, 5},
       {.mode = ResizeMode::cubic},
       {-4.631722222, -0.493569444, 4.086805556,  2.211555556,  -0.297194444, 1.94975,      2.96375,      3.59375,
        1.25375,      -0.79025,     8.217564815,  6.107412037,  2.787037037,  -0.017712963, -1.596962963, 6.806268519,
        5.065837963,  2.212962963,  -0.536787037, -2.171037037, 5.79025,      4.14225,      1.40625,      -1.32975,
        -2.97775,     5.297194444,  3.649194444,  0.913194444,  -1.822805556, -3.470805556}},
      {{1, 1, 5, 4},
       {3, 6},
       {.mode = ResizeMode::cubic},
       {-1.087319959, 0.622685185, 2.295803326, 1.899798525, 3.94212963, 6.010738169, -2.607638889, 1.875, 5.103009259,
        2.042824074, -1.375, -3.347222222, 0.653420782, 2.363425926, 4.167395405, 4.294795953, 1.914351852,
        -0.439814815}},
      {{1, 1, 4, 3},
       {6, 5},
       {.mode = ResizeMode::cubic, .align_corners = true},
       {-3,    0.875, 4,     2.65625, 0,      3.228, 3.737, 3.496, 1.521125, -0.504,
        7.808, 5.655, 2.752, 0.278,   -1.248, 6.512, 4.755, 2.248, -0.15175, -1.752,
        5.504, 3.879, 1.504, -0.871,  -2.496, 5,     3.375, 1,     -1.375,   -3}},
      {{1, 1, 9, 4},
       {4, 3},
       {.mode = ResizeMode::cubic, .antialias = true},
       {0.23315005, 2.407431602, 3.080174342, 1.464070224, 3.561106632, 0.967693283, 3.047661109, 2.054498769,
        0.760565904, 2.488680647, 0.960267372, 1.878751378}},
      {{1, 1, 2, 4},
       {4, 8},
       {.mode = ResizeMode::cubic},
       {-4.493453979, -1.602615356, 3.222793579,  3.932006836,  -0.037475586, 0.671737671, 5.497146606, 8.387985229,
        -2.11605835,  -0.566314697, 2.00491333,   2.842529297,  1.384033203,  2.22164917,  4.792877197, 6.34262085,
        1.7996521,    1.140533447,  -0.00100708,  1.048095703,  3.725341797,  4.77444458,  3.632904053, 2.9737854,
        4.177047729,  2.176834106,  -1.218887329, -0.041381836, 5.146850586,  6.324356079, 2.928634644, 0.928421021}},
  };
  return table;
}

std::string text(const Row& row) {
  return fmt::format("{} to {} mode {} align_corners {} antialias {}", to_string(row.x), fmt::join(row.sizes, " "),
                     static_cast<int>(row.options.mode), row.options.align_corners, row.options.antialias);
}

TEST(Resize, EqualsPyTorch) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(text(row));
    const Array x = pattern(row.x);
    expect_values(resize(Tensor(x), row.sizes, row.options), row.expected, 1e-8);
    const std::vector<std::pair<Dtype, double>> types{{Dtype::f32, 2e-6}, {Dtype::f16, 3e-3}, {Dtype::bf16, 3e-2}};
    for (const auto& [type, tolerance] : types) {
      const Tensor y = resize(Tensor(x.to(type)), row.sizes, row.options);
      EXPECT_EQ(y.dtype(), type);
      expect_values(y, row.expected, tolerance);
    }
  }
}

TEST(Resize, GradientsEqualDifferences) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(text(row));
    expect_gradients([&](const std::vector<Tensor>& v) { return square(resize(v[0], row.sizes, row.options)); },
                     {random_array(row.x, -1, 1, 3)});
  }
}

TEST(Resize, BatchesAndChannelsAreApart) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(text(row));
    const Tensor x = Tensor(pattern(row.x));
    const Tensor y = resize(concat({concat({x, 2 * x}, 1), concat({3 * x, 4 * x}, 1)}, 0), row.sizes, row.options);
    for (const auto& [n, c] : {std::pair{0, 1}, {1, 0}, {1, 1}}) {
      std::vector<double> expected = row.expected;
      for (double& value : expected) value *= 2 * n + c + 1;
      expect_values(slice(y, {n, c}), expected, 1e-8);
    }
  }
}

// Without a matrix: its elements would be the square of the axis.
TEST(Resize, LongAxes) {
  constexpr std::int64_t in = 3000, out = 2000;
  const Array x = random_array({1, 2, in}, -1, 1, 4);
  const std::vector<double> values = x.to_vector<double>();
  std::vector<double> expected;
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t o = 0; o < out; ++o) {
      const double at = (static_cast<double>(o) + 0.5) * 1.5 - 0.5, share = at - std::floor(at);
      const auto low = static_cast<std::size_t>(c * in) + static_cast<std::size_t>(at);
      expected.push_back((1 - share) * values[low] + share * values[low + 1]);
    }
  expect_values(resize(Tensor(x), {out}, {.mode = ResizeMode::linear}), expected, 1e-12);
  const Tensor total = sum(resize(Tensor(x), {out}, {.mode = ResizeMode::cubic, .antialias = true}));
  EXPECT_NEAR(evaluate(total, cpu()).item(), 2.0 / 3 * evaluate(sum(Tensor(x)), cpu()).item(), 0.2);
}

TEST(Resize, NearestKeepsTypesAndInterpolationOfIntegersIsF32) {
  for (const Dtype type : {Dtype::u8, Dtype::u16, Dtype::i32, Dtype::u64, Dtype::boolean}) {
    EXPECT_EQ(resize(ones({1, 1, 3}, type), {5}).dtype(), type);
    EXPECT_EQ(resize(ones({1, 1, 3}, type), {6}).dtype(), type);
    EXPECT_EQ(resize(ones({1, 1, 3}, type), {5}, {.mode = ResizeMode::linear}).dtype(), Dtype::f32);
  }
  EXPECT_EQ(resize(zeros({0, 2, 3}), {5}, {.mode = ResizeMode::linear}).shape(), (Shape{0, 2, 5}));
}

TEST(Resize, Mistakes) {
  const Tensor x = zeros({1, 2, 4, 4});
  EXPECT_FAULT(usage, "resize: input is [4, 4], expected [N, C, spatial...]", resize(zeros({4, 4}), {2}));
  EXPECT_FAULT(usage, "resize: 1 sizes for input [1, 2, 4, 4], expected one for each spatial axis", resize(x, {2}));
  EXPECT_FAULT(usage, "resize: axis 3 of [1, 2, 4, 4] to size 0, expected sizes of at least 1", resize(x, {2, 0}));
  EXPECT_FAULT(usage, "resize: axis 2 of [1, 2, 0] to size 2", resize(zeros({1, 2, 0}), {2}));
  EXPECT_FAULT(usage, "resize: align_corners and antialias are for linear and cubic, the mode is nearest",
               resize(x, {2, 2}, {.antialias = true}));
}

}  // namespace
}  // namespace nixie
