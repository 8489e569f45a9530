// Values at the edges of a type: signed zeros, infinities and NaN, elementwise and in every reduction, in every
// floating type, for few elements and for more than a tile or a block holds.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
constexpr Dtype kFloats[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16};

void expect_same(const Tensor& actual, const std::vector<double>& expected) {
  const std::vector<double> values = values_of(actual);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << "at " << i << ": " << values[i];
    } else {
      EXPECT_EQ(values[i], expected[i]) << "at " << i;
      EXPECT_EQ(std::signbit(values[i]), std::signbit(expected[i])) << "at " << i;
    }
  }
}

Tensor row(const std::vector<double>& values, Dtype dtype) {
  return Array::from(values, {std::ssize(values)}).to(dtype);
}

TEST(EdgeValues, OddFunctionsKeepTheSignOfZero) {
  const struct {
    const char* name;
    Tensor (*of)(const Tensor& x);
  } kCases[] = {{"tanh", tanh}, {"tanh2", tanh2}, {"sinh", sinh},   {"sin", sin},     {"tan", tan},
                {"asin", asin}, {"atan", atan},   {"expm1", expm1}, {"log1p", log1p}, {"erf", erf},
                {"sqrt", sqrt}, {"floor", floor}, {"ceil", ceil},   {"round", round}, {"trunc", trunc}};
  for (const auto& row_of : kCases)
    for (const Dtype dtype : kFloats) {
      SCOPED_TRACE(fmt::format("{} {}", row_of.name, dtype));
      expect_same(row_of.of(row({-0.0, 0.0, -0.0}, dtype)), {-0.0, 0.0, -0.0});
    }
}

TEST(EdgeValues, ZerosOfBothSignsInOneKernel) {
  for (const Dtype dtype : kFloats) expect_same(where(row({1, -1, 1}, dtype) > 0, 0.0, -0.0), {0.0, -0.0, 0.0});
}

TEST(EdgeValues, OfTwoNumbers) {
  const struct {
    const char* name;
    Tensor (*of)(const Tensor& a, const Tensor& b);
    std::vector<double> a, b, expected;
  } kCases[] = {
      {"pow", pow, {-0.5, -0.5, -2, -0.0, -kInf}, {255, 254, 255, 3, 3}, {-0x1p-255, 0x1p-254, -0x1p255, -0.0, -kInf}},
      {"remainder",
       remainder,
       {0, -0.0, 0, 4, -4, 3, -3, 1},
       {-2, -2, 2, -2, 2, -2, 2, kInf},
       {-0.0, -0.0, 0, -0.0, 0, -1, 1, 1}},
      {"floor_divide", floor_divide, {0, -0.0, 4, -4}, {-2, 2, -2, 2}, {-0.0, -0.0, -2, -2}},
      {"maximum",
       maximum,
       {0, -0.0, -0.0, kNan, 1, -kInf},
       {-0.0, 0, -0.0, 1, kNan, kInf},
       {0, 0, -0.0, kNan, kNan, kInf}},
      {"minimum",
       minimum,
       {0, -0.0, 0.0, kNan, 1, -kInf},
       {-0.0, 0, 0.0, 1, kNan, kInf},
       {-0.0, -0.0, 0, kNan, kNan, -kInf}},
      {"relu",
       [](const Tensor& x, const Tensor& slope) { return relu(x, slope); },
       {0, 1, 0, kNan},
       {kNan, kNan, kInf, 1},
       {0, 1, 0, kNan}},
      {"elu",
       [](const Tensor& x, const Tensor& alpha) { return elu(x, alpha); },
       {0, 1, kNan},
       {kNan, kNan, 1},
       {0, 1, kNan}},
  };
  for (const auto& each : kCases)
    for (const Dtype dtype : kFloats) {
      SCOPED_TRACE(fmt::format("{} {}", each.name, dtype));
      std::vector<double> expected = each.expected;
      for (double& value : expected) value = row({value}, dtype).array().to(Dtype::f64).item();
      expect_same(each.of(row(each.a, dtype), row(each.b, dtype)), expected);
    }
  expect_same(pow(row({-0.5, -2}, Dtype::f32), 8388609), {-0.0, -kInf});
}

TEST(EdgeValues, OfOneNumber) {
  for (const Dtype dtype : kFloats) {
    SCOPED_TRACE(fmt::format("{}", dtype));
    expect_same(sign(row({kNan, -0.0, 0, -3, kInf, -kInf}, dtype)), {kNan, 0, 0, -1, 1, -1});
    expect_same(relu(row({-0.0, kNan, -kInf}, dtype)), {0, kNan, 0});
    const Tensor x = row({kInf, 0, 1}, dtype), none = row({-kInf, -kInf}, dtype);
    expect_same(softmax(x, {0}), {kNan, kNan, kNan});
    expect_same(log_softmax(x, {0}), {kNan, kNan, kNan});
    expect_same(log_softmax(none, {0}), {kNan, kNan});
    expect_same(logsumexp(x, {0}), {kInf});
    expect_same(logsumexp(none, {0}), {-kInf});
  }
}

TEST(EdgeValues, GradientsWhereAFormulaDividesByZero) {
  for (const Dtype dtype : kFloats) {
    SCOPED_TRACE(fmt::format("{}", dtype));
    const Tensor y = row({0, 0, 3}, dtype), x = row({0, -0.0, 4}, dtype);
    const std::vector<Tensor> slopes = gradients(sum(atan2(y, x)), {y, x});
    const auto as_stored = [&](double value) { return row({value}, dtype).array().to(Dtype::f64).item(); };
    testing::expect_values(slopes[0], {0, 0, as_stored(4.0 / 25)}, 1e-3);
    testing::expect_values(slopes[1], {0, 0, as_stored(-3.0 / 25)}, 1e-3);
  }
}

// Reductions of 1s with these values somewhere among them: numpy's answers.
TEST(EdgeValues, Reductions) {
  const struct {
    const char* name;
    Tensor (*of)(const Tensor& x, const Axes& axes, bool keepdims);
    double empty, inf, minus_inf, both, nan;
  } kCases[] = {{"sum", sum, 0, kInf, -kInf, kNan, kNan},         {"prod", prod, 1, kInf, -kInf, -kInf, kNan},
                {"max", max, -kInf, kInf, 1, kInf, kNan},         {"min", min, kInf, 1, -kInf, -kInf, kNan},
                {"mean", mean, kNan, kInf, -kInf, kNan, kNan},    {"variance", variance, kNan, kNan, kNan, kNan, kNan},
                {"stddev", stddev, kNan, kNan, kNan, kNan, kNan}, {"norm", norm, 0, kInf, kInf, kInf, kNan}};
  for (const auto& each : kCases)
    for (const Dtype dtype : kFloats)
      for (const std::int64_t size : {3, 5000})
        for (const bool columns : {false, true}) {  // several kept positions side by side, or one
          SCOPED_TRACE(fmt::format("{} {} {} {}", each.name, dtype, size, columns));
          const auto of = [&](const std::vector<double>& among) {
            std::vector<double> values(static_cast<std::size_t>(size * (columns ? 9 : 1)), 1);
            for (std::size_t i = 0; i < among.size(); ++i) {
              const auto at = (i + 1) * static_cast<std::size_t>(size) / 3 - 1;
              for (std::size_t k = 0; k < (columns ? 9 : 1); ++k) values[at * (columns ? 9 : 1) + k] = among[i];
            }
            const Tensor x = Array::from(values, columns ? Shape{size, 9} : Shape{size}).to(dtype);
            return each.of(x, {0}, false);
          };
          const auto all = [&](double value) { return std::vector<double>(columns ? 9 : 1, value); };
          expect_same(of({kInf}), all(each.inf));
          expect_same(of({-kInf}), all(each.minus_inf));
          expect_same(of({kInf, -kInf}), all(each.both));
          expect_same(of({kNan, kInf}), all(each.nan));
          expect_same(each.of(zeros(columns ? Shape{0, 9} : Shape{0}, dtype), {0}, false), all(each.empty));
        }
}

TEST(EdgeValues, ZerosInLargestAndSmallest) {
  for (const Dtype dtype : kFloats)
    for (const std::int64_t size : {2, 3, 64, 5000})
      for (const double first : {0.0, -0.0}) {
        SCOPED_TRACE(fmt::format("{} {} {}", dtype, size, first));
        std::vector<double> values(static_cast<std::size_t>(size), first);
        values.back() = -first;
        const Tensor x = row(values, dtype), columns = broadcast_to(expand_dims(x, {1}), {size, 5});
        expect_same(max(x), {0.0});
        expect_same(min(x), {-0.0});
        expect_same(max(columns + -0.0, {0}, false), std::vector<double>(5, 0.0));
        expect_same(argmax(x), {0});
      }
}

}  // namespace
}  // namespace nixie
