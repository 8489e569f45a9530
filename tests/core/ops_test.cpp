// Every elementwise op: value against the C++ library in double, gradient against central differences, odd shapes.
#include <numbers>

#include "nixie/core/ops/elementwise.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

using Reference = std::function<double(double, double, double)>;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// An op that is declared without a row here fails the test.
const std::map<std::string, Reference>& references() {
  static const std::map<std::string, Reference> table{
      {"neg", [](double a, double, double) { return -a; }},
      {"add", [](double a, double b, double) { return a + b; }},
      {"sub", [](double a, double b, double) { return a - b; }},
      {"mul", [](double a, double b, double) { return a * b; }},
      {"div", [](double a, double b, double) { return a / b; }},
      {"pow", [](double a, double b, double) { return std::pow(a, b); }},
      {"fmod", [](double a, double b, double) { return std::fmod(a, b); }},
      {"remainder", [](double a, double b, double) { return a - std::floor(a / b) * b; }},
      {"floor_divide", [](double a, double b, double) { return std::floor(a / b); }},
      {"trunc_divide", [](double a, double b, double) { return std::trunc(a / b); }},
      {"maximum", [](double a, double b, double) { return std::fmax(a, b); }},
      {"minimum", [](double a, double b, double) { return std::fmin(a, b); }},
      {"abs", [](double a, double, double) { return std::fabs(a); }},
      {"sign", [](double a, double, double) { return a > 0   ? 1.0
                                                     : a < 0 ? -1.0
                                                             : 0.0; }},
      {"square", [](double a, double, double) { return a * a; }},
      {"reciprocal", [](double a, double, double) { return 1 / a; }},
      {"sqrt", [](double a, double, double) { return std::sqrt(a); }},
      {"rsqrt", [](double a, double, double) { return 1 / std::sqrt(a); }},
      {"exp", [](double a, double, double) { return std::exp(a); }},
      {"exp2", [](double a, double, double) { return std::exp2(a); }},
      {"expm1", [](double a, double, double) { return std::expm1(a); }},
      {"log", [](double a, double, double) { return std::log(a); }},
      {"log2", [](double a, double, double) { return std::log2(a); }},
      {"log1p", [](double a, double, double) { return std::log1p(a); }},
      {"safe_log", [](double a, double, double) { return a > 0 ? std::log(a) : -50; }},
      {"sigmoid", [](double a, double, double) { return sigmoid_of(a); }},
      {"sigmoid2", [](double a, double, double) { return 1 / (1 + std::exp2(-a)); }},
      {"softplus", [](double a, double, double) { return std::log(1 + std::exp(a)); }},
      {"distance", [](double a, double b, double) { return a - b; }},
      {"sin", [](double a, double, double) { return std::sin(a); }},
      {"cos", [](double a, double, double) { return std::cos(a); }},
      {"tan", [](double a, double, double) { return std::tan(a); }},
      {"asin", [](double a, double, double) { return std::asin(a); }},
      {"acos", [](double a, double, double) { return std::acos(a); }},
      {"atan", [](double a, double, double) { return std::atan(a); }},
      {"atan2", [](double a, double b, double) { return std::atan2(a, b); }},
      {"sinh", [](double a, double, double) { return std::sinh(a); }},
      {"cosh", [](double a, double, double) { return std::cosh(a); }},
      {"tanh", [](double a, double, double) { return std::tanh(a); }},
      {"tanh2", [](double a, double, double) { return (std::exp2(2 * a) - 1) / (std::exp2(2 * a) + 1); }},
      {"erf", [](double a, double, double) { return std::erf(a); }},
      {"erfc", [](double a, double, double) { return std::erfc(a); }},
      {"floor", [](double a, double, double) { return std::floor(a); }},
      {"ceil", [](double a, double, double) { return std::ceil(a); }},
      {"round", [](double a, double, double) { return std::nearbyint(a); }},
      {"trunc", [](double a, double, double) { return std::trunc(a); }},
      {"binade", [](double a, double, double) { return std::ldexp(1.0, std::ilogb(a)); }},
      {"relu", [](double a, double, double) { return a > 0 ? a : 0; }},
      {"leaky_relu", [](double a, double b, double) { return a > 0 ? a : a * b; }},
      {"elu", [](double a, double b, double) { return a > 0 ? a : b * (std::exp(a) - 1); }},
      {"gelu", [](double a, double, double) { return 0.5 * a * std::erfc(-a / std::sqrt(2.0)); }},
      {"binarize", [](double a, double, double) { return a >= 0 ? 1.0 : -1.0; }},
      {"stop_gradient", [](double a, double, double) { return a; }},
      {"equal", [](double a, double b, double) { return a == b; }},
      {"not_equal", [](double a, double b, double) { return a != b; }},
      {"less", [](double a, double b, double) { return a < b; }},
      {"less_equal", [](double a, double b, double) { return a <= b; }},
      {"logical_and", [](double a, double b, double) { return a != 0 && b != 0; }},
      {"logical_or", [](double a, double b, double) { return a != 0 || b != 0; }},
      {"logical_not", [](double a, double, double) { return a == 0; }},
      {"is_finite", [](double a, double, double) { return std::isfinite(a); }},
      {"is_nan", [](double a, double, double) { return std::isnan(a); }},
      {"is_inf", [](double a, double, double) { return std::isinf(a); }},
      {"where", [](double a, double b, double c) { return a != 0 ? b : c; }},
      {"cast", [](double a, double, double) { return a; }},
      {"retype", [](double a, double, double) { return a; }},
      {"bit_and",
       [](double a, double b, double) { return static_cast<double>(static_cast<int>(a) & static_cast<int>(b)); }},
      {"bit_or",
       [](double a, double b, double) { return static_cast<double>(static_cast<int>(a) | static_cast<int>(b)); }},
      {"bit_xor",
       [](double a, double b, double) { return static_cast<double>(static_cast<int>(a) ^ static_cast<int>(b)); }},
      {"bit_not", [](double a, double, double) { return static_cast<double>(~static_cast<int>(a)); }},
      {"shift_left", [](double a, double b, double) { return std::ldexp(std::trunc(a), static_cast<int>(b)); }},
      {"shift_right",
       [](double a, double b, double) { return std::floor(std::ldexp(std::trunc(a), -static_cast<int>(b))); }},
  };
  return table;
}

class ElementwiseOp : public ::testing::TestWithParam<std::shared_ptr<const ElementwiseInfo>> {
 protected:
  const ElementwiseInfo& op() const { return *GetParam(); }
  bool integer() const { return op().traits.result == ResultType::integer; }
  // f32 as f32, integers as i32, so that the reference sees just what the op sees.
  std::vector<Array> inputs(const Shape& shape, Dtype dtype) const {
    std::vector<Array> result;
    for (int k = 0; k < op().formula.arity; ++k)
      result.push_back(
          random_array(shape, op().traits.domain.low, op().traits.domain.high, 11u + static_cast<unsigned>(k))
              .to(integer() ? Dtype::i32 : dtype));
    return result;
  }
  Tensor call(const std::vector<Tensor>& x) const {
    Dtype dtype = x[0].dtype();
    if (op().traits.result == ResultType::boolean) dtype = Dtype::boolean;
    return Tensor::make(Map{GetParam()}, x, x[0].shape(), dtype);
  }
};

TEST_P(ElementwiseOp, ValueEqualsTheReference) {
  const auto row = references().find(op().name);
  ASSERT_NE(row, references().end()) << "give " << op().name << " a reference";
  for (const Dtype dtype : {Dtype::f64, Dtype::f32})
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{3, 0, 2}, Shape{2, 3, 5}, Shape{1031}}) {
      const std::vector<Array> x = inputs(shape, dtype);
      std::vector<std::vector<double>> v;
      for (const Array& array : x) v.push_back(array.to_vector<double>());
      v.resize(3, std::vector<double>(v[0].size(), 0));
      std::vector<double> expected;
      for (std::size_t i = 0; i < v[0].size(); ++i) expected.push_back(row->second(v[0][i], v[1][i], v[2][i]));
      SCOPED_TRACE(fmt::format("{} {}", dtype, shape));
      expect_values(call({x.begin(), x.end()}), expected, dtype == Dtype::f64 ? 1e-13 : 2e-6);
    }
}

// A sum takes out factors that all of its terms share, but only those of products.
TEST_P(ElementwiseOp, SumsOfScaledInputsAreThoseOfTheirTerms) {
  if (integer() || op().traits.result == ResultType::boolean) return;
  const Array one = Array::from(std::vector<double>{1}, {1, 1});
  std::vector<Tensor> scaled;
  std::vector<std::vector<double>> v;
  for (const Array& x : inputs({3, 5}, Dtype::f64)) {
    scaled.push_back(x * Tensor(one));
    v.push_back(x.to_vector<double>());
  }
  v.resize(3, std::vector<double>(v[0].size(), 0));
  const Reference& reference = references().at(op().name);
  std::vector<double> rows(3), all(1);
  for (std::size_t i = 0; i < v[0].size(); ++i) {
    const double term = reference(v[0][i], v[1][i], v[2][i]);
    rows[i / 5] += term, all[0] += term;
  }
  expect_values(sum(call(scaled), {1}, false), rows, 1e-13);
  expect_values(sum(call(scaled)), all, 1e-13);
  expect_values(sum(-call(scaled) * Tensor(one)), {-all[0]}, 1e-13);
}

TEST_P(ElementwiseOp, GradientEqualsCentralDifferences) {
  if (!op().gradient) return;  // zero everywhere by declaration
  if (op().traits.result == ResultType::integer) return;
  // `where` and `cast` choose and convert; their own tests are in types_test.
  if (op().name == "where" || op().name == "cast" || op().name == "retype") return;
  const std::vector<Array> at = inputs({2, 5}, Dtype::f64);
  expect_gradients([&](const std::vector<Tensor>& x) { return call(x); }, at);
  for (std::size_t k = 0; k < at.size(); ++k) {  // of the gradients, too
    SCOPED_TRACE("the gradient of input " + std::to_string(k));
    expect_gradients([&](const std::vector<Tensor>& x) { return gradients(sum(square(call(x))), x)[k]; }, at);
  }
}

// An op without a gradient must be one whose gradient is zero.
TEST_P(ElementwiseOp, IsFlatWhereItHasNoGradient) {
  if (op().gradient || integer() || op().name == "stop_gradient") return;  // which hides its slope on purpose
  const std::vector<Array> x = inputs({2, 50}, Dtype::f64);
  std::vector<Tensor> moved;
  for (const Array& array : x) moved.push_back(evaluate(Tensor(array) + 1e-7, cpu()));
  EXPECT_EQ(values_of(call(moved)), values_of(call({x.begin(), x.end()})));
}

INSTANTIATE_TEST_SUITE_P(All, ElementwiseOp, ::testing::ValuesIn(all_elementwise()),
                         [](const auto& info) { return info.param->name; });

TEST(Elementwise, BroadcastsAsNumpyDoes) {
  const Array a = Array::from(std::vector<double>{1, 2, 3}, {3, 1}), b = Array::from(std::vector<double>{10, 20}, {2});
  expect_values(Tensor(a) + Tensor(b), {11, 21, 12, 22, 13, 23}, 0);
  expect_gradients([](const std::vector<Tensor>& x) { return x[0] * x[1] + exp(x[0]); }, {a, b});
  EXPECT_FAULT(usage, "shapes [3, 1] and [2, 1] do not broadcast together",
               Tensor(a) + Tensor(Array::from(std::vector<double>{1, 2}, {2, 1})));
}

TEST(Elementwise, SpecialValues) {
  const double inf = INFINITY, nan = NAN;
  const Array x = Array::from(std::vector<float>{NAN, INFINITY, -INFINITY, 0, -0.0f, 1}, {6});
  expect_values(is_nan(x), {1, 0, 0, 0, 0, 0}, 0);
  expect_values(is_finite(x), {0, 0, 0, 1, 1, 1}, 0);
  expect_values(maximum(x, 0.5), {nan, inf, 0.5, 0.5, 0.5, 1}, 0);
  expect_values(minimum(x, 0.5), {nan, 0.5, -inf, 0, 0, 0.5}, 0);
  expect_values(exp(x), {nan, inf, 0, 1, 1, std::exp(1.0)}, 1e-6);
  expect_values(sigmoid(x), {nan, 1, 0, 0.5, 0.5, sigmoid_of(1)}, 1e-6);
  expect_values(tanh(x), {nan, 1, -1, 0, 0, std::tanh(1.0)}, 1e-6);
  expect_values(clip(x, -1, 1), {nan, 1, -1, 0, 0, 1}, 0);
  const Array small = Array::from(std::vector<double>{5e-324, 1e-310, 2.3e-308}, {3});
  expect_values(log(small), {std::log(5e-324), std::log(1e-310), std::log(2.3e-308)}, 1e-12);
}

// Where an exponential is subnormal, zero or infinite, and at the infinities: values and slopes keep their digits below
// zero (not gelu's, which come of 1 + erf), and are within a unit of x and of 1 above.
TEST(Elementwise, FarFromZero) {
  constexpr double kRootHalf = 1 / std::numbers::sqrt2;
  const auto phi = [](double x) { return 0.5 * std::erfc(-x * kRootHalf); };
  const struct {
    const char* name;
    Tensor (*function)(const Tensor&);
    std::function<double(double)> value, slope;
    bool keeps_digits = true;
  } kCases[] = {
      {"sigmoid", sigmoid, sigmoid_of, [](double x) { return sigmoid_of(x) * sigmoid_of(-x); }},
      {"sigmoid2", sigmoid2, [](double x) { return 1 / (1 + std::exp2(-x)); },
       [](double x) { return std::numbers::ln2 / (1 + std::exp2(-x)) / (1 + std::exp2(x)); }},
      {"softplus", softplus, [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); },
       sigmoid_of},
      {"elu", [](const Tensor& x) { return elu(x, 1); }, [](double x) { return x > 0 ? x : std::expm1(x); },
       [](double x) { return x > 0 ? 1 : std::exp(x); }},
      {"gelu", gelu, [=](double x) { return std::isinf(x) ? std::max(x, 0.0) : x * phi(x); },
       [=](double x) {
         return std::isinf(x) ? phi(x) : phi(x) + x * std::exp(-x * x / 2) * kRootHalf * std::numbers::inv_sqrtpi;
       },
       false},
  };
  const struct {
    Dtype dtype;
    double unit, least;
  } kTypes[] = {{Dtype::f64, 2e-13, 1e-320}, {Dtype::f32, 1e-5, 3e-45}, {Dtype::bf16, 0x1p-7, 0x1p-133}};
  std::vector<double> all{-INFINITY, INFINITY, 0, 1e-40, -1e-40};
  for (const double x :
       {0.5, 4.0, 6.0, 12.0, 20.0, 38.0, 64.0, 87.0, 89.0, 90.0, 100.0, 104.0, 128.0, 700.0, 709.0, 740.0, 1e3})
    all.push_back(x), all.push_back(-x);
  for (const auto& c : kCases)
    for (const auto& type : kTypes) {
      const Array in = Array::from(all, {static_cast<std::int64_t>(all.size())}).to(type.dtype);
      const std::vector<double> inputs = in.to(Dtype::f64).to_vector<double>();
      const Tensor x = in, y = c.function(x);
      const std::vector<double> values = values_of(y), slopes = values_of(gradients(sum(y), {x})[0]);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const double v = inputs[i], value = c.value(v), slope = c.slope(v);
        const bool is_exact = v < 0 && c.keeps_digits;
        SCOPED_TRACE(fmt::format("{} of {} {}", c.name, type.dtype, v));
        if (std::isinf(value))
          EXPECT_EQ(values[i], value);
        else
          EXPECT_NEAR(values[i], value, type.unit * (is_exact ? std::abs(value) : std::max(1.0, v)) + type.least);
        EXPECT_NEAR(slopes[i], slope, type.unit * (is_exact ? std::abs(slope) : 1) + type.least);
      }
    }
}

// 0^b is constant for b > 0; PyTorch takes 0 at b = 0, too.
TEST(Elementwise, PowersOfZeroHaveAGradientInTheirExponent) {
  const auto slope_of = [](const Tensor& base, const Tensor& exponent) {
    return gradients(sum(pow(base, exponent)), {exponent})[0];
  };
  const Tensor base = Array::from(std::vector<double>{0, 0, 0, -0.0, 2}, {5}),
               exponent = Array::from(std::vector<double>{2, 0.5, 0, 3, 3}, {5});
  const Tensor slope = slope_of(base, exponent);
  expect_values(slope, {0, 0, 0, 0, 8 * std::log(2.0)}, 1e-12);
  expect_values(gradients(sum(slope), {exponent})[0], {0, 0, 0, 0, 8 * std::pow(std::log(2.0), 2)}, 1e-12);
  const Tensor zero = Array::from(std::vector<double>{0}, {1}), below = Array::from(std::vector<double>{-1}, {1});
  expect_values(slope_of(zero, below), {-INFINITY}, 0);
}

// A number of C++ is no f32 number where the other operand is f64.
TEST(Elementwise, PowersOfNumbersHaveAllDigits) {
  const std::vector<double> places = {1, 0.001, 3};
  const Tensor x = Array::from(places, {3});
  const auto expect = [&](const Tensor& found, const std::function<double(double)>& wanted) {
    const std::vector<double> values = values_of(found);
    for (std::size_t i = 0; i < places.size(); ++i)
      EXPECT_NEAR(values[i], wanted(places[i]), 1e-14 * std::abs(wanted(places[i]))) << "at " << places[i];
  };
  for (const double number : {1.00000001, 0.3, 2.7, -0.3, 0.0}) {
    SCOPED_TRACE(number);
    const Tensor slope = gradients(sum(pow(x, number)), {x})[0];
    expect(slope, [&](double v) { return number * std::pow(v, number - 1); });
    expect(gradients(sum(slope), {x})[0], [&](double v) { return number * (number - 1) * std::pow(v, number - 2); });
    if (number > 0)
      expect(gradients(sum(pow(number, x)), {x})[0], [&](double v) { return std::pow(number, v) * std::log(number); });
  }
}

}  // namespace
}  // namespace nixie
