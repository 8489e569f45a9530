// Conversions between types: one meaning and rounding on the host, in casts, in padding and in Variables, fused or not.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr Dtype kIntegers[] = {Dtype::i64, Dtype::i32, Dtype::i16, Dtype::i8,
                               Dtype::u64, Dtype::u32, Dtype::u16, Dtype::u8};

// The value of x in `dtype` by every conversion there is, in f64.
std::vector<std::pair<std::string, Tensor>> ways_to(const Array& x, Dtype dtype) {
  std::vector<std::pair<std::string, Tensor>> ways;
  const auto add = [&](const char* way, const Tensor& value) { ways.emplace_back(way, value); };
  const Tensor stored = evaluate(cast(x, dtype), cpu());
  add("Array::to", x.to(dtype));
  add("cast, stored", stored);
  add("cast, fused", cast(cast(x, dtype), Dtype::f64) + 0.0);
  const Variable variable("v", Array(dtype, x.shape()));
  variable.set(x);
  add("Variable::set", variable.array());
  Step step(cpu(), [&](const Inputs& in) {
    variable.set(in["x"] * 1);
    return Outputs{{"v", variable.value()}};
  });
  const Tensor inside = step({{"x", x}}).at("v");
  add("Variable::set in a Step", inside);
  add("the Variable after it", variable.array());
  return ways;
}

TEST(Conversions, FloatsToIntegersAreCutEverywhere) {
  const std::vector<double> values{2.7, -2.7, 0.5, 1.5, -0.9, 1e30, -1e30, NAN, INFINITY};
  for (const Dtype from : {Dtype::f64, Dtype::f32, Dtype::bf16})
    for (const Dtype dtype : kIntegers) {
      const Array x = Array::from(values, {std::ssize(values)}).to(from);
      std::vector<double> expected;
      for (const double value : x.to_vector<double>()) {
        const auto [low, high] = visit_dtype(dtype, []<class T>(T) {
          if constexpr (std::is_arithmetic_v<T>)
            return std::pair(static_cast<double>(std::numeric_limits<T>::min()),
                             static_cast<double>(std::numeric_limits<T>::max()));
          else
            return std::pair(0.0, 0.0);
        });
        expected.push_back(std::isnan(value) ? 0 : std::clamp(std::trunc(value), low, high));
      }
      for (const auto& [way, value] : ways_to(x, dtype)) {
        SCOPED_TRACE(fmt::format("{} to {} by {}", from, dtype, way));
        expect_values(value, expected, 0);
      }
    }
}

TEST(Conversions, NumbersToIntegersAreCutEverywhere) {
  for (const Dtype dtype : kIntegers) {
    SCOPED_TRACE(fmt::format("{}", dtype));
    const Tensor x = Array::from(std::vector<double>{7}, {1}).to(dtype);
    expect_values(pad(x, {1}, {0}, 2.7), {2, 7}, 0);
    expect_values(pad(x + 0, {1}, {0}, 2.7) * 1, {2, 7}, 0);
    expect_values(full({1}, 2.7, dtype), {2}, 0);
    expect_values(update(x, {Index::all()}, 2.7), {2}, 0);
    const Variable variable("v", Array(dtype, {1}));
    variable.set(2.7);
    expect_values(variable.array(), {2}, 0);
    Step step(cpu(), [&](const Inputs&) {
      variable.set(3.7);
      return Outputs{{"v", variable.value()}};
    });
    expect_values(step({}).at("v"), {3}, 0);
    expect_values(variable.array(), {3}, 0);
  }
  expect_values(pad(Array::from(std::vector<float>{0}, {1}).to(Dtype::boolean), {1}, {0}, 0.5), {1, 0}, 0);
}

// Each is so close to the middle of two halves that f32 rounds it to the middle.
TEST(Conversions, MoreDigitsThanAFloatHasAreRoundedOnce) {
  const struct {
    Dtype from, to;
    double value, expected;
  } kCases[] = {
      {Dtype::f64, Dtype::f16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10},
      {Dtype::f64, Dtype::f16, -(1 + 0x1p-11 + 0x1p-40), -(1 + 0x1p-10)},
      {Dtype::f64, Dtype::f16, 1 + 3 * 0x1p-11 - 0x1p-40, 1 + 0x1p-10},
      {Dtype::f64, Dtype::f16, 0x1p-25 + 0x1p-60, 0x1p-24},
      {Dtype::f64, Dtype::f16, 65520 - 0x1p-30, 65504},
      {Dtype::f64, Dtype::f16, 1e300, INFINITY},
      {Dtype::f64, Dtype::f16, -1e-300, -0.0},
      {Dtype::f64, Dtype::f16, NAN, NAN},
      {Dtype::f64, Dtype::bf16, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7},
      {Dtype::f64, Dtype::bf16, 1 + 3 * 0x1p-8 - 0x1p-40, 1 + 0x1p-7},
      {Dtype::f64, Dtype::bf16, -INFINITY, -INFINITY},
      {Dtype::i32, Dtype::bf16, (1 << 30) + (1 << 22) + 1, (1 << 30) + (1 << 23)},
      {Dtype::i64, Dtype::bf16, 0x1p40 + 0x1p32 + 1, 0x1p40 + 0x1p33},
      {Dtype::i32, Dtype::f16, 2049, 2048},
      {Dtype::i64, Dtype::f16, -332, -332},
      {Dtype::i64, Dtype::bf16, 257, 256},
      {Dtype::u64, Dtype::bf16, 0x1p63 + 0x1p55 + 0x1p11, 0x1p63 + 0x1p56},
      {Dtype::u32, Dtype::bf16, 0x1p31 + 0x1p23 + 1, 0x1p31 + 0x1p24},
      {Dtype::u32, Dtype::f16, 2049, 2048},
      {Dtype::u16, Dtype::bf16, 257, 256},
  };
  for (const auto& row : kCases) {
    const Array x = Array::from(std::vector<double>{row.value}, {1}).to(row.from);
    for (const auto& [way, value] : ways_to(x, row.to)) {
      SCOPED_TRACE(fmt::format("{} {} to {} by {}", row.from, row.value, row.to, way));
      expect_values(value, {row.expected}, 0);
    }
    SCOPED_TRACE(fmt::format("{} {} to {}", row.from, row.value, row.to));
    expect_values(evaluate(retype(x, row.to), cpu()), {row.expected}, 0);
    expect_values(full({1}, row.value, row.to), {row.expected}, 0);
  }
  const std::int64_t middle = (std::int64_t{1} << 60) + (std::int64_t{1} << 52);
  for (const auto& [value, expected] :
       {std::pair(middle, 0x1p60), {middle + 1, 0x1p60 + 0x1p53}, {-middle - 1, -0x1p60 - 0x1p53}})
    EXPECT_EQ(Array::from(std::vector<std::int64_t>{value}, {1}).to(Dtype::bf16).item(), expected) << value;
}

// A product of halves is a float until it is stored or cast.
TEST(Conversions, ACastToItsOwnTypeRoundsAComputedHalf) {
  for (const Dtype half : {Dtype::f16, Dtype::bf16}) {
    SCOPED_TRACE(fmt::format("{}", half));
    const Tensor third = evaluate(cast(full({3}, 1.0 / 3), half), cpu());
    const double one = third.array().to(Dtype::f64).to_vector<double>()[0];
    const Array squared = Array::from(std::vector<double>{one * one}, {1}).to(half);
    const double rounded = squared.to(Dtype::f64).item();
    ASSERT_NE(rounded, one * one);
    expect_values(cast(cast(third * third, half), Dtype::f32) + 0.0, std::vector<double>(3, rounded), 0);
    expect_values(cast(cast(reshape(third * third, {3, 1}), half), Dtype::f32) + 0.0, std::vector<double>(3, rounded),
                  0);
    expect_values(cast(third * third, Dtype::f32) + 0.0,
                  std::vector<double>(3, static_cast<double>(static_cast<float>(one * one))), 0);
    EXPECT_EQ(cast(third, half).id(), third.id());  // what is stored is rounded
  }
}

// A condition is what is not 0 in its own type, whatever the values' is.
TEST(Conversions, ConditionsAreTrueWhereTheyAreNotZero) {
  const Tensor fractions = Array::from(std::vector<float>{0.4f, 0.6f, -0.5f, 2, 0, -0.0f, NAN}, {7});
  const std::vector<double> expected{1, 1, 1, 1, 0, 0, 1};
  for (const Dtype dtype : kIntegers) {
    SCOPED_TRACE(fmt::format("{}", dtype));
    const Tensor ones_of = ones({7}, dtype), zeros_of = zeros({7}, dtype);
    expect_values(where(fractions, ones_of, zeros_of), expected, 0);
    expect_values(where(evaluate(fractions, cpu()), ones_of, zeros_of), expected, 0);
    expect_values(update(zeros_of, fractions, 1), expected, 0);
    expect_values(update(zeros_of, cast(fractions, Dtype::f16), 1), expected, 0);
    expect_values(where(0.4, ones_of, zeros_of), std::vector<double>(7, 1), 0);
  }
  expect_values(where(fractions, 1, 0), expected, 0);
  const Tensor tiny = Array::from(std::vector<double>{1e-300, 0}, {2});
  expect_values(where(tiny, ones({2}), zeros({2})), {1, 0}, 0);
}

}  // namespace
}  // namespace nixie
