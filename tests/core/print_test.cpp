// Arrays print as numpy prints them: texts recorded from numpy 2.4.
#include "nixie/core/base/print.h"

#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

Array doubles(const std::vector<double>& values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())});
}
Array floats(const std::vector<float>& values) {
  return Array::from(values, {static_cast<std::int64_t>(values.size())});
}
Array scalar(double value, Dtype dtype = Dtype::f64) { return Array::from(std::vector<double>{value}, {}).to(dtype); }
Array counted(const Shape& shape, Dtype dtype, double divisor = 1) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  std::iota(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= divisor;
  return Array::from(values, shape).to(dtype);
}

TEST(Print, AsNumpyDoes) {
  const std::vector<std::pair<Array, std::string>> rows{
      {doubles({1, 2.5, -3}), "[ 1.   2.5 -3. ]"},
      {Array::from(std::vector<float>{1, 2, 3, 4}, {2, 2}), "[[1. 2.]\n [3. 4.]]"},
      {scalar(3.14), "3.14"},
      {scalar(1e10), "10000000000.0"},
      {scalar(1e-5), "1e-05"},
      {scalar(123456789), "123456789.0"},
      {scalar(0.1, Dtype::f32), "0.1"},
      {scalar(-0.0), "-0.0"},
      {scalar(1.5, Dtype::f16), "1.5"},
      {scalar(7, Dtype::i32), "7"},
      {scalar(1, Dtype::boolean), "True"},
      {Array::from(std::vector<bool>{true, false}, {2}), "[ True False]"},
      {Array::from(std::vector<bool>{true, true}, {2, 1}), "[[True]\n [True]]"},
      {Array::from(std::vector<std::int64_t>{-9007199254740993, 5}, {2}), "[-9007199254740993                 5]"},
      {floats({0.1f, 0.2f}), "[0.1 0.2]"},
      {counted({30}, Dtype::f64, 7),
       "[0.         0.14285714 0.28571429 0.42857143 0.57142857 0.71428571\n"
       " 0.85714286 1.         1.14285714 1.28571429 1.42857143 1.57142857\n"
       " 1.71428571 1.85714286 2.         2.14285714 2.28571429 2.42857143\n"
       " 2.57142857 2.71428571 2.85714286 3.         3.14285714 3.28571429\n"
       " 3.42857143 3.57142857 3.71428571 3.85714286 4.         4.14285714]"},
      {doubles({1e-5, 1}), "[1.e-05 1.e+00]"},
      {doubles({NAN, 1, -INFINITY}), "[ nan   1. -inf]"},
      {doubles({NAN, INFINITY}), "[nan inf]"},
      {counted({2000}, Dtype::i32), "[   0    1    2 ... 1997 1998 1999]"},
      {doubles({1e16}), "[1.e+16]"},
      {doubles({1}), "[1.]"},
      {doubles({1e8}), "[1.e+08]"},
      {doubles({1e-100, 1}), "[1.e-100 1.e+000]"},
      {counted({2, 3, 4}, Dtype::i32),
       "[[[ 0  1  2  3]\n  [ 4  5  6  7]\n  [ 8  9 10 11]]\n\n [[12 13 14 15]\n  [16 17 18 19]\n  [20 21 22 23]]]"},
      {Array(Dtype::f64, {0, 3}), "[]"},
      {doubles({1.5, 2}).to(Dtype::f16), "[1.5 2. ]"},
      {doubles({1.0 / 3}).to(Dtype::f16), "[0.3333]"},
      {doubles({1e-5}).to(Dtype::f16), "[1.e-05]"},
      {doubles({1e-5, 123456}), "[1.00000e-05 1.23456e+05]"},
      {doubles({0, -0.0}), "[ 0. -0.]"},
      {Array::from(std::vector<std::uint8_t>{255, 0}, {2}), "[255   0]"},
      {floats({1e-5f, 1e-4f}), "[1.e-05 1.e-04]"},
      {Array(Dtype::f64, {2, 1, 2}), "[[[0. 0.]]\n\n [[0. 0.]]]"},
      {counted({2, 600}, Dtype::f64),
       "[[0.000e+00 1.000e+00 2.000e+00 ... 5.970e+02 5.980e+02 5.990e+02]\n"
       " [6.000e+02 6.010e+02 6.020e+02 ... 1.197e+03 1.198e+03 1.199e+03]]"},
  };
  for (const auto& [array, text] : rows) EXPECT_EQ(to_string(array), text);
}

TEST(Print, ByStreamsAndByFmtAlike) {
  testing::cpu();  // the default backend
  const Tensor x{{1, 2}, {3, 4}};
  std::ostringstream out;
  out << x << ' ' << x.shape() << ' ' << x.dtype();
  EXPECT_EQ(out.str(), "[[1 2]\n [3 4]] [2, 2] i32");
  EXPECT_EQ(fmt::format("{} {} {}", x, x.shape(), x.dtype()), out.str());
}

TEST(Print, LiteralsAreWhatTheirBracesShow) {
  testing::cpu();
  const struct {
    Tensor value;
    const char* text;
    Dtype dtype;
    Shape shape;
  } rows[] = {
      {{{1, 2}, {3, 4}}, "[[1 2]\n [3 4]]", Dtype::i32, {2, 2}},
      {{1.5, 2, true}, "[1.5 2.  1. ]", Dtype::f32, {3}},
      {{true, false}, "[ True False]", Dtype::boolean, {2}},
      {{std::int64_t{1} << 40, 2}, "[1099511627776             2]", Dtype::i64, {2}},
      {{{{0.5}}}, "[[[0.5]]]", Dtype::f32, {1, 1, 1}},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(to_string(row.value), row.text);
    EXPECT_EQ(row.value.dtype(), row.dtype);
    EXPECT_EQ(row.value.shape(), row.shape);
  }
  EXPECT_FAULT(usage, "rows of the shapes [2] and [1], expected one shape", Tensor{{1, 2}, {3}});
  EXPECT_FAULT(usage, "expected at most 2^53", Tensor{(std::int64_t{1} << 53) + 2});
}

TEST(Print, TensorsPrintWhatTheyAre) {
  testing::cpu();  // the default backend
  const Tensor x = floats({1, 2});
  std::ostringstream out;
  out << x << ' ' << x * 2 + 0.5 << ' ' << x.array();
  EXPECT_EQ(out.str(), "[1. 2.] [2.5 4.5] [1. 2.]");
  std::string inside;
  Step step(testing::cpu(), [&](const Inputs& in) {
    inside = to_string(in["x"] + 1);
    return Outputs{{"y", in["x"]}};
  });
  step({{"x", x}});
  EXPECT_EQ(inside, "f32 [2], known inside its Step");
}

}  // namespace
}  // namespace nixie
