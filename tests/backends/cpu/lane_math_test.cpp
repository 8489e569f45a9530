// The CPU's functions of floats against libm in double, over floats of every size: the error in ulp.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "nixie/backends/cpu/lanes/lanes.h"

namespace nixie::cpu {
namespace {

struct Row {
  Primitive primitive;
  double (*reference)(double);
  double bound;
};
const Row kRows[] = {
    {Primitive::exp, std::exp, 1.1},   {Primitive::expm1, std::expm1, 1.7}, {Primitive::tanh, std::tanh, 1.5},
    {Primitive::log, std::log, 1.3},   {Primitive::log2, std::log2, 1.8},   {Primitive::log1p, std::log1p, 1.6},
    {Primitive::exp2, std::exp2, 1.5}, {Primitive::sinh, std::sinh, 2},     {Primitive::cosh, std::cosh, 2},
    {Primitive::erfc, std::erfc, 6},
};

// The distance of neighbouring floats around a number.
double last_place(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1, std::max(exponent - 24, -149));
}

// A finite number beyond the floats is as far away as if their exponents went on.
double error_of(float actual, double exact) {
  if (std::isnan(exact)) return std::isnan(actual) ? 0 : INFINITY;
  const double largest = std::numeric_limits<float>::max();
  if (std::isinf(exact) || std::isinf(actual)) {
    const bool rounds_to_infinity = std::abs(exact) > largest + last_place(largest) / 2;
    return std::isinf(actual) && rounds_to_infinity && std::signbit(actual) == std::signbit(exact) ? 0 : INFINITY;
  }
  return std::abs(actual - exact) / last_place(exact);
}

TEST(LaneMath, ErrsByFewUnitsOverAllFloats) {
  constexpr std::uint32_t kStride =
      40503;  // about a hundred thousand floats, of both signs, subnormal and special ones
  for (const Row& row : kRows) {
    const LaneFunction function = lane_function(row.primitive, Dtype::f32, Dtype::f32);
    std::vector<float> x{0.0f, -0.0f, INFINITY, -INFINITY, NAN, 8.0f, 88.72f, 88.73f, -87.34f, -103.9f, -104.1f, 1.0f};
    for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += kStride)
      x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    x.resize(static_cast<std::size_t>(round_up_lanes(static_cast<std::int64_t>(x.size()))), 1.0f);
    std::vector<float> y(x.size());
    function(x.data(), nullptr, nullptr, y.data(), static_cast<std::int64_t>(x.size()));
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (const double error = error_of(y[i], row.reference(x[i])); error > worst) {
        worst = error;
        at = x[i];
      }
    EXPECT_LE(worst, row.bound) << to_string(row.primitive) << " at " << at;
  }
}

TEST(LaneMath, ExpOfDoublesGoesOnToZero) {
  const LaneFunction function = lane_function(Primitive::exp, Dtype::f64, Dtype::f64);
  std::vector<double> x{-700, -708.5, -720, -740, -745, -746, -INFINITY, 0, 709.7, 710, INFINITY, 1, 2, 3, 4, 5};
  std::vector<double> y(x.size());
  function(x.data(), nullptr, nullptr, y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(x[i]);
    if (std::isinf(exact))
      EXPECT_EQ(y[i], exact);
    else
      EXPECT_NEAR(y[i], exact, 4e-16 * exact + 5e-324) << x[i];
  }
}

}  // namespace
}  // namespace nixie::cpu
