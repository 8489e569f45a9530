// Reductions: every kind over every set of axes against plain loops, gradients, and the odd cases.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

using T = const Tensor&;
using A = const Axes&;
using V = const std::vector<double>&;

struct Kind {
  const char* name;
  std::function<Tensor(const Tensor&, const Axes&, bool)> op;
  std::function<double(const std::vector<double>&)> reference;
};

double mean_of(const std::vector<double>& v) {
  double total = 0;
  for (double e : v) total += e;
  return total / static_cast<double>(v.size());
}

double variance_of(const std::vector<double>& v) {
  double total = 0;
  for (double e : v) total += (e - mean_of(v)) * (e - mean_of(v));
  return total / static_cast<double>(v.size());
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table{
      {"sum", [](T x, A a, bool k) { return sum(x, a, k); },
       [](V v) { return mean_of(v) * static_cast<double>(v.size()); }},
      {"prod", [](T x, A a, bool k) { return prod(x, a, k); },
       [](V v) {
         double p = 1;
         for (double e : v) p *= e;
         return p;
       }},
      {"max", [](T x, A a, bool k) { return max(x, a, k); }, [](V v) { return *std::max_element(v.begin(), v.end()); }},
      {"min", [](T x, A a, bool k) { return min(x, a, k); }, [](V v) { return *std::min_element(v.begin(), v.end()); }},
      {"mean", [](T x, A a, bool k) { return mean(x, a, k); }, mean_of},
      {"variance", [](T x, A a, bool k) { return variance(x, a, k); }, variance_of},
      {"stddev", [](T x, A a, bool k) { return stddev(x, a, k); }, [](V v) { return std::sqrt(variance_of(v)); }},
      {"argmax", [](T x, A a, bool k) { return argmax(x, a, k); },
       [](V v) { return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin()); }},
      {"argmin", [](T x, A a, bool k) { return argmin(x, a, k); },
       [](V v) { return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin()); }},
  };
  return table;
}

// The reduction by plain loops: what each kept position sees, in row-major order.
std::vector<double> reduced(const Array& x, const Axes& axes, const Kind& kind) {
  Shape kept = x.shape();
  for (int axis : axes) kept = kept.with(axis, 1);
  std::vector<std::vector<double>> seen(static_cast<std::size_t>(kept.size()));
  const auto values = x.to_vector<double>();
  const Strides strides = kept.row_major();
  for (std::int64_t i = 0; i < x.size(); ++i) {
    std::int64_t rest = i, at = 0;
    for (int axis = x.shape().rank() - 1; axis >= 0; --axis) {
      const std::int64_t position = rest % x.shape()[axis];
      rest /= x.shape()[axis];
      if (kept[axis] != 1) at += position * strides[static_cast<std::size_t>(axis)];
    }
    seen[static_cast<std::size_t>(at)].push_back(values[static_cast<std::size_t>(i)]);
  }
  std::vector<double> result;
  for (const auto& group : seen) result.push_back(kind.reference(group));
  return result;
}

class ReductionOf : public ::testing::TestWithParam<std::tuple<Shape, Dtype>> {};

TEST_P(ReductionOf, EveryKindOverEverySetOfAxes) {
  const auto& [shape, dtype] = GetParam();
  const Array x = random_array(shape, 0.8, 1.2, 9).to(dtype);
  for (unsigned set = 1; set < 1u << shape.rank(); ++set)
    for (const Kind& kind : kinds()) {
      Axes axes;
      for (int axis = 0; axis < shape.rank(); ++axis)
        if (set >> axis & 1) axes.push_back(axis);
      SCOPED_TRACE(fmt::format("{} over [{}]", kind.name, fmt::join(axes, ", ")));
      const auto expected = reduced(x, axes, kind);
      const double tolerance = dtype == Dtype::f64 ? 1e-12 : std::string(kind.name) == "prod" ? 1e-3 : 3e-6;
      expect_values(kind.op(x, axes, true), expected, tolerance);
      const Tensor dropped = kind.op(x, axes, false);
      EXPECT_EQ(dropped.rank(), shape.rank() - static_cast<int>(axes.size()));
      expect_values(dropped, expected, tolerance);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ReductionOf,
                         ::testing::Combine(::testing::Values(Shape{7}, Shape{3, 5}, Shape{1, 4, 1}, Shape{2, 3, 4, 5},
                                                              Shape{130, 70}, Shape{3, 1025}),
                                            ::testing::Values(Dtype::f64, Dtype::f32)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", fmt::join(std::get<0>(info.param), "x"),
                                              to_string(std::get<1>(info.param)));
                         });

TEST(Reductions, Gradients) {
  const Array x = random_array({3, 4, 2}, 0.5, 2, 2);
  for (const Axes& axes : {Axes{0}, Axes{1}, Axes{2}, Axes{0, 2}, Axes{0, 1, 2}})
    for (const Kind& kind : kinds()) {
      if (std::string(kind.name).starts_with("arg")) continue;
      SCOPED_TRACE(kind.name);
      expect_gradients([&](const std::vector<Tensor>& v) { return square(kind.op(v[0], axes, true)); }, {x});
    }
  const Array with_zero = Array::from(std::vector<double>{2, 0, 3, 4, 0, 0}, {2, 3});
  expect_gradients([](const std::vector<Tensor>& v) { return prod(v[0], {1}); }, {with_zero});
}

TEST(Reductions, SumToUndoesBroadcasting) {
  const Tensor x = Array::from(std::vector<double>{0, 1, 2, 3, 4, 5}, {2, 3});
  expect_values(sum_to(x, {2, 3}), {0, 1, 2, 3, 4, 5}, 0);
  expect_values(sum_to(x, {3}), {3, 5, 7}, 0);
  expect_values(sum_to(x, {2, 1}), {3, 12}, 0);
  expect_values(sum_to(x, {}), {15}, 0);
}

TEST(Reductions, OfNothing) {
  const Tensor empty = zeros({2, 0, 3});
  expect_values(sum(empty, {1}), {0, 0, 0, 0, 0, 0}, 0);
  expect_values(prod(empty, {1}), {1, 1, 1, 1, 1, 1}, 0);
  expect_values(max(empty, {1}, false), {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, 0);
  EXPECT_EQ(sum(empty, {0}).shape(), (Shape{1, 0, 3}));
  expect_values(sum(empty, {0}), {}, 0);
  EXPECT_FAULT(usage, "argmax: there is nothing to choose from in [2, 0, 3]", argmax(empty, {1}));
}

// No factor makes the sum of nothing another, and nothing it is of has a slope.
TEST(Reductions, OfNothingInGradients) {
  const Tensor none = Array(Dtype::f64, {0, 2}), beyond = Array::from(std::vector<double>{INFINITY, NAN}, {1, 2});
  const Tensor c = Array::from(std::vector<double>{2, 3}, {1, 2});
  expect_values(sum(none * beyond, {0}), {0, 0}, 0);
  expect_values(sum(none * beyond), {0}, 0);
  const struct {
    const char* name;
    Tensor (*of)(const Tensor& x);
  } kCases[] = {{"sum", [](const Tensor& x) { return sum(x * x, {0}); }},
                {"prod", [](const Tensor& x) { return prod(x, {0}); }},
                {"max", [](const Tensor& x) { return max(x, {0}); }},
                {"min", [](const Tensor& x) { return min(x, {0}); }},
                {"norm", [](const Tensor& x) { return norm(x, {0}); }},
                {"logsumexp", [](const Tensor& x) { return logsumexp(x, {0}); }},
                {"softmax", [](const Tensor& x) { return softmax(x, {0}); }},
                {"log_softmax", [](const Tensor& x) { return log_softmax(x, {0}); }}};
  for (const auto& row : kCases) {
    SCOPED_TRACE(row.name);
    const Tensor slope = gradients(sum(row.of(none) * c), std::vector<Tensor>{none})[0];
    expect_values(slope, {}, 0);
    expect_values(gradients(sum(slope * beyond), std::vector<Tensor>{c})[0], {0, 0}, 0);
  }
}

TEST(Reductions, OfNothingBesideWhatIsThere) {
  for (const std::int64_t length : {1, 7}) {
    const Tensor x = random_array({1, length}, 1, 2, 3), none = slice(x, {Index::range(1)});
    const std::vector<double> zeros(static_cast<std::size_t>(length), 0.0);
    expect_values(gradients(sum(x * none), {x})[0], zeros, 0);
    expect_values(gradients(sum(maximum(x, none)), {x})[0], zeros, 0);
    expect_values(sum(none, {0}) + pad(none, {0, 0}, {1, 0}), zeros, 0);
  }
  const Tensor rows = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor row = Array::from(std::vector<float>{100, 200, 300}, {1, 3}), none = Array(Dtype::f32, {0, 3});
  expect_values(sum(rows, {0}) + pad(none, {0, 0}, {1, 0}, 7), {12, 14, 16}, 0);
  expect_values(sum(rows, {0}) + slice(pad(row, {1, 0}, {0, 0}), {Index::range(0, 1)}), {5, 7, 9}, 0);
}

TEST(Reductions, TiesAndNaN) {
  const Tensor x = Array::from(std::vector<float>{1, 5, 5, 2, NAN, 7, 3, 3}, {2, 4});
  expect_values(argmax(x, {1}), {1, 0}, 0);
  expect_values(argmin(x, {1}), {0, 0}, 0);
  expect_values(max(x, {1}), {5, NAN}, 0);
  expect_values(argmax(Tensor(Array::from(std::vector<float>{1, 3, 3, 2}, {2, 2})), {0, 1}), {1}, 0);
}

TEST(Reductions, LongSumsStayAccurate) {
  const Array x = random_array({10000019}, 0, 1, 4).to(Dtype::f32);
  double exact = 0;
  for (float value : x.data<float>()) exact += value;
  expect_values(sum(x), {exact}, 1e-6);
  expect_values(mean(x), {exact / 10000019}, 1e-6);
  expect_values(variance(x), {1.0 / 12}, 1e-4);
  const Tensor shifted = Tensor(x) + 1000;  // the sum of squares would lose everything
  expect_values(variance(shifted), {1.0 / 12}, 1e-3);
}

// The mean of a tile is rounded; the square of its distance from equal values of this size is beyond f32.
TEST(Reductions, VarianceOfHugeEqualValuesIsZero) {
  const struct {
    Shape shape;
    Axes axes;
  } kCases[] = {{{7}, {0}},         {{3, 1000}, {1}},   {{1000, 3}, {0}},      {{4097}, {0}}, {{3, 100003}, {1}},
                {{100003, 3}, {0}}, {{37, 53}, {0, 1}}, {{5, 3, 701}, {0, 2}}, {{2, 3}, {1}}, {{1000003}, {0}}};
  for (const auto& [shape, axes] : kCases)
    for (const auto& [type, value] : {std::pair{Dtype::f32, 1e30},
                                      {Dtype::f32, -1e30},
                                      {Dtype::f32, 3e38},
                                      {Dtype::f32, 1e26},
                                      {Dtype::f64, 1e300},
                                      {Dtype::f64, -1.1e306}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", to_string(shape), to_string(type), value));
      const Array x = Array::from(std::vector<double>(static_cast<std::size_t>(shape.size()), value), shape).to(type);
      const Tensor v = variance(x, axes);
      expect_values(v, std::vector<double>(static_cast<std::size_t>(v.shape().size()), 0), 0);
      // With the mean in the same kernel, as normalisations have it.
      const Tensor y = standardize(x, axes, 1e-5f);
      expect_values(y, std::vector<double>(static_cast<std::size_t>(y.shape().size()), 0), 0);
    }
  // Values whose distance is beyond f64, and values that have no variance: CUDA's mean is then NaN, too.
  const bool on_cpu = test_backend().name() == "cpu";
  const Tensor far = Array::from(std::vector<double>{1.5e308, -1.5e308}, {2});
  expect_values(standardize(far, {0}, 1e-5f), std::vector<double>(2, on_cpu ? 0 : NAN), 0);
  const Tensor odd = Array::from(std::vector<float>{INFINITY, 1}, {2});
  expect_values(where(variance(odd, {0}) > 0, 0, mean(odd, {0})), {on_cpu ? INFINITY : NAN}, 0);
  std::vector<float> values(5000, 1e30f);
  values[4999] = INFINITY;
  expect_values(variance(Tensor(Array::from(values, {5000}))), {NAN}, 0);
  values[4999] = 1;
  expect_values(variance(Tensor(Array::from(values, {5000}))), {INFINITY}, 0);
}

TEST(Reductions, SeveralInOneExpression) {
  const Array x = random_array({4, 6}, -2, 2, 8);
  expect_gradients([](const std::vector<Tensor>& v) { return softmax(v[0], {1}); }, {x});
  expect_gradients([](const std::vector<Tensor>& v) { return log_softmax(v[0], {0}); }, {x});
  expect_gradients([](const std::vector<Tensor>& v) { return logsumexp(v[0], {0, 1}); }, {x});
  expect_gradients([](const std::vector<Tensor>& v) { return standardize(v[0], {1}, 1e-5f) * mean(v[0], {0}); }, {x});
}

}  // namespace
}  // namespace nixie
