// Sorting, the largest and smallest elements, and places in sorted values, against the C++ library; and their kernels.
#include "nixie/backends/cpu/backend.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr double kInf = INFINITY, kNan = NAN;

// numpy's order: NaN last.
bool is_before(double a, double b, bool descending) {
  if (descending) std::swap(a, b);
  return a < b || (std::isnan(b) && !std::isnan(a));
}

TEST(Sorting, EqualsAStableSort) {
  for (const Shape& shape : {Shape{1}, Shape{2}, Shape{7}, Shape{64}, Shape{1000}, Shape{3, 33}, Shape{0}, Shape{2, 0}})
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::i64, Dtype::i32, Dtype::u8, Dtype::boolean})
      for (const bool descending : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", dtype, shape, descending));
        Array x = random_array(shape, 0, 20, 3).to(dtype);  // with ties
        if (dtype == Dtype::f32 && x.size() > 5) {
          x.data<float>()[1] = NAN;
          x.data<float>()[2] = -0.0f;
          x.data<float>()[3] = 0.0f;
          x.data<float>()[4] = -INFINITY;
          x.data<float>()[5] = NAN;
        }
        const auto values = x.to_vector<double>();
        const std::int64_t row = shape[-1];
        std::vector<double> sorted, positions;
        for (std::int64_t start = 0; start < x.size(); start += row) {
          std::vector<std::int64_t> order(static_cast<std::size_t>(row));
          std::iota(order.begin(), order.end(), 0);
          const auto at = [&](std::int64_t i) { return values[static_cast<std::size_t>(start + i)]; };
          std::stable_sort(order.begin(), order.end(),
                           [&](auto a, auto b) { return is_before(at(a), at(b), descending); });
          for (std::int64_t i : order) {
            positions.push_back(static_cast<double>(i));
            sorted.push_back(at(i));
          }
        }
        expect_values(argsort(x, -1, descending), positions, 0);
        expect_values(sort(x, -1, descending), sorted, 0);
        // The first few of many take a way of their own.
        const std::int64_t k = std::min<std::int64_t>(3, row);
        std::vector<double> first;
        for (std::int64_t start = 0; start < x.size(); start += row)
          first.insert(first.end(), positions.begin() + start, positions.begin() + start + k);
        expect_values(topk(x, k, -1, descending).indices, first, 0);
      }
  const Tensor x = cast(Tensor{{3, 1, 2}, {9, 8, 7}}, Dtype::f64);
  expect_values(sort(x, 0), {3, 1, 2, 9, 8, 7}, 0);
  expect_values(argsort(x, 1), {1, 2, 0, 2, 1, 0}, 0);
  expect_values(topk(x, 2).values, {3, 2, 9, 8}, 0);
  expect_values(topk(x, 2, 1, false).values, {1, 2, 7, 8}, 0);
  expect_values(topk(x, 1, 0).indices, {1, 1, 1}, 0);
}

TEST(Sorting, IntegersBeyondDoublesKeepTheirOrder) {
  constexpr std::int64_t kBig = std::int64_t{1} << 60;
  const Tensor x = Array::from(std::vector<std::int64_t>{kBig + 1, -kBig, kBig, -kBig - 1}, {4});
  expect_values(argsort(x), {3, 1, 2, 0}, 0);
  expect_values(argsort(x, 0, true), {0, 2, 1, 3}, 0);
}

TEST(Sorting, SearchedPlacesAreTheLibrarys) {
  for (const std::int64_t size : {0, 1, 2, 7, 8, 100}) {
    std::vector<double> sorted = random_array({size}, 0, 20, 5).to(Dtype::i32).to_vector<double>();
    std::ranges::sort(sorted);
    std::vector<double> lower, upper, values;
    for (double value = -1; value <= 21; value += 0.5) {
      values.push_back(value);
      lower.push_back(static_cast<double>(std::ranges::lower_bound(sorted, value) - sorted.begin()));
      upper.push_back(static_cast<double>(std::ranges::upper_bound(sorted, value) - sorted.begin()));
    }
    const Tensor in = Array::from(sorted, {size}), of = Array::from(values, {static_cast<std::int64_t>(values.size())});
    expect_values(searchsorted(in, of), lower, 0);
    expect_values(searchsorted(in, of, true), upper, 0);
  }
  const Tensor with_nan{1.0, kInf, kNan, kNan};
  expect_values(searchsorted(with_nan, Tensor{{kInf, kNan}, {0.0, -kInf}}), {1, 2, 0, 0}, 0);
  expect_values(searchsorted(with_nan, Tensor{{kInf, kNan}, {0.0, -kInf}}, true), {2, 4, 0, 0}, 0);
  EXPECT_FAULT(usage, "sorted values are [1, 1], expected one axis", searchsorted(Tensor{{1.0}}, 1.0));
}

TEST(Sorting, Gradients) {
  const Array x = random_array({3, 5}, -2, 2, 1);
  expect_gradients([](auto& v) { return sort(v[0], 0); }, {x});
  expect_gradients([](auto& v) { return square(sort(v[0], 1, true)); }, {x});
  expect_gradients([](auto& v) { return topk(v[0], 2, 1, false).values; }, {x});
  // The slope of a slope.
  const Tensor v = x;
  const Tensor slope = gradients(sum(pow(sort(v), 3.0)), {v})[0];
  const std::vector<double> second = values_of(gradients(sum(slope), {v})[0]), values = values_of(v);
  for (std::size_t i = 0; i < second.size(); ++i) EXPECT_NEAR(second[i], 6 * values[i], 1e-12);
}

TEST(Sorting, TakesAKernelForTheOrderAndOneForTheValues) {
  const Tensor x = Array(Dtype::f32, {4, 1000});
  const std::shared_ptr<Backend> cpu = make_cpu_backend();  // others may add kernels
  const auto kernels = [&](const std::vector<Tensor>& values) {
    return make_plan(prepare(Graph{values, {}}, PrecisionPolicy{}), *cpu).kernels.size();
  };
  EXPECT_EQ(kernels({argsort(x)}), 1u);
  EXPECT_EQ(kernels({sort(x)}), 2u);
  EXPECT_EQ(kernels({topk(x, 5).values}), 2u);
  EXPECT_EQ(kernels({cumsum(x, 1) * 2}), 1u);
  EXPECT_EQ(kernels({cumprod(x, 0)}), 1u);
  EXPECT_EQ(kernels({cummax(x, 1)}), 2u);
  EXPECT_LE(kernels({scatter(x, Tensor{1, 1, 3}, 2.0)}), 6u);  // none of the square of the updates
}

}  // namespace
}  // namespace nixie
