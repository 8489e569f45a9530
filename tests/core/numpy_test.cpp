// numpy's and SciPy's everyday operations: values recorded from
// numpy 2.4 and SciPy 1.17, gradients against central differences.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr double kInf = INFINITY, kNan = NAN;

Tensor doubles(const std::vector<double>& values, const Shape& shape) { return Array::from(values, shape); }
Tensor doubles(const std::vector<double>& values) {
  return doubles(values, {static_cast<std::int64_t>(values.size())});
}
Tensor integers(const std::vector<std::int32_t>& values, const Shape& shape) { return Array::from(values, shape); }
Tensor integers(const std::vector<std::int32_t>& values) {
  return integers(values, {static_cast<std::int64_t>(values.size())});
}
Tensor count_to(std::int64_t size, const Shape& shape) { return cast(reshape(arange(size), shape), Dtype::f64); }

struct Row {
  const char* name;
  Tensor value;
  std::vector<double> expected;
  Shape shape;
};

TEST(Numpy, RecordedValues) {
  const Tensor a = doubles({7, -7, 7, -7, 0, 5, 3.5, -3.5}), b = doubles({3, 3, -3, -3, 3, 0, -2, 2});
  const Tensor i = integers({7, -7, 7, -7, 0, 5}), j = integers({3, 3, -3, -3, 3, 0});
  const Tensor x = doubles({3, 1, 2, 9, 8, 7}, {2, 3}), m = count_to(6, {2, 3}), n = count_to(12, {3, 4});
  const Tensor special = doubles({1, kInf, -kInf, kNan}), zeros_and_one = doubles({0, 0, 1, 0, 0, 0}, {2, 3});
  const std::vector<Row> rows{
      {"remainder", a % b, {1, 2, -2, -1, 0, kNan, -0.5, 0.5}, {8}},
      {"floor_divide", floor_divide(a, b), {2, -3, -3, 2, 0, kInf, -2, -2}, {8}},
      {"remainder of integers", i % j, {1, 2, -2, -1, 0, 0}, {6}},
      {"floor_divide of integers", floor_divide(i, j), {2, -3, -3, 2, 0, 0}, {6}},
      {"trunc_divide", trunc_divide(a, b), {2, -2, -2, 2, 0, kInf, -1, -1}, {8}},
      {"trunc_divide of integers", trunc_divide(i, j), {2, -2, -2, 2, 0, 0}, {6}},
      {"true division of integers", i / j, {7.0 / 3, -7.0 / 3, -7.0 / 3, 7.0 / 3, 0, kInf}, {6}},
      {"repeat", repeat(m, 2, 1), {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}, {2, 6}},
      {"repeat of all", repeat(doubles({1, 2}, {2, 1}), 3), {1, 1, 1, 2, 2, 2}, {6}},
      {"eye", eye(2, 3, 1), {0, 1, 0, 0, 0, 1}, {2, 3}},
      {"eye of bool", eye(2, {}, 0, Dtype::boolean), {1, 0, 0, 1}, {2, 2}},
      {"outer", outer(doubles({1, 2}, {2, 1}), doubles({3, 4, 5})), {3, 4, 5, 6, 8, 10}, {2, 3}},
      {"moveaxis", moveaxis(reshape(n, {3, 2, 2}), 0, -1), {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}, {2, 2, 3}},
      {"moveaxis of two", moveaxis(zeros({2, 3, 0, 5}), {0, 1}, {-1, 0}), {}, {3, 0, 5, 2}},
      {"split", split(n, 2, 1)[1], {2, 3, 6, 7, 10, 11}, {3, 2}},
      {"split at positions", split(n, {1}, 1)[0], {0, 4, 8}, {3, 1}},
      {"unstack", unstack(n, 1)[2], {2, 6, 10}, {3}},
      {"count_nonzero", count_nonzero(x - 1, {1}, false), {2, 3}, {2}},
      {"diff", diff(doubles({1, 4, 9, 16}), 2), {2, 2}, {2}},
      {"diff of bools", diff(doubles({1, 1, 0}) > 0), {0, 1}, {2}},
      {"diff of one", diff(doubles({1}), 3), {}, {0}},
      {"sum over an axis by its number", sum(m, -1, false), {3, 12}, {2}},
      {"remainder of floats", cast(a, Dtype::f32) % cast(b, Dtype::f32), {1, 2, -2, -1, 0, kNan, -0.5, 0.5}, {8}},
      {"is_inf", is_inf(special), {0, 1, 1, 0}, {4}},
      {"is_inf of integers", is_inf(integers({2147483647, 0})), {0, 0}, {2}},
      {"linspace", linspace(0, 1, 4, Dtype::f64), {0, 1.0 / 3, 2.0 / 3, 1}, {4}},
      {"linspace f32", linspace(-1, 2, 7), {-1, -0.5, 0, 0.5, 1, 1.5, 2}, {7}},
      {"linspace of one", linspace(3, 5, 1), {3}, {1}},
      {"tril", tril(n, 1), {0, 1, 0, 0, 4, 5, 6, 0, 8, 9, 10, 11}, {3, 4}},
      {"concat of no elements", concat({zeros({1, 0, 2}), zeros({2, 0, 2})}, 0), {}, {3, 0, 2}},
      {"stack of no elements", stack({zeros({4, 0, 1}), zeros({4, 0, 1})}), {}, {2, 4, 0, 1}},
      {"topk of no elements", topk(zeros({0, 4, 0, 4}), 2).values, {}, {0, 4, 0, 2}},
      {"variance over no axes", variance(full({2}, kNan), {}), {kNan, kNan}, {2}},
      {"variance of one infinity", variance(full({2, 1}, kInf), {1}), {kNan, kNan}, {2, 1}},
      {"triu", triu(n, -1), {0, 1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11}, {3, 4}},
      {"roll", roll(m, -4, 1), {1, 2, 0, 4, 5, 3}, {2, 3}},
      {"roll up", roll(m, 5, 0), {3, 4, 5, 0, 1, 2}, {2, 3}},
      {"tile", tile(doubles({0, 1}), {2, 2}), {0, 1, 0, 1, 0, 1, 0, 1}, {2, 4}},
      {"tile by fewer", tile(m, {2}), {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}, {2, 6}},
      {"cumsum 0", cumsum(m, 0), {0, 1, 2, 3, 5, 7}, {2, 3}},
      {"cumsum 1", cumsum(m, -1), {0, 1, 3, 3, 7, 12}, {2, 3}},
      {"cumsum u8", cumsum(full({5}, 200, Dtype::u8), 0), {200, 400, 600, 800, 1000}, {5}},
      {"any", any(zeros_and_one, {1}), {1, 0}, {2, 1}},
      {"all", all(m, {0}, false), {0, 1, 1}, {3}},
      {"any of nothing", any(zeros({0, 2}), {0}), {0, 0}, {1, 2}},
      {"all of nothing", all(zeros({0, 2}), {0}), {1, 1}, {1, 2}},
      {"norm", norm(doubles({3, 4, 0, 0}, {2, 2}), {1}), {5, 0}, {2, 1}},
      {"take from the end", take(doubles({1, 2, 3}), integers({-1, 0, -3})), {3, 1, 1}, {3}},
      {"take_along_axis", take_along_axis(x, integers({2, -1, 0, -3}, {2, 2}), 1), {2, 2, 9, 9}, {2, 2}},
      {"take_along_axis 0", take_along_axis(x, integers({1, 0, 1}, {1, 3}), 0), {9, 1, 7}, {1, 3}},
      {"scatter", scatter(count_to(4, {4}), integers({1, 1, -1}), doubles({10, 20, 30})), {0, 20, 2, 30}, {4}},
      {"scatter rows", scatter(m, integers({1}), 7.0), {0, 1, 2, 7, 7, 7}, {2, 3}},
      {"scatter columns", scatter(m, integers({2, 0}), doubles({1, 2, 3, 4}, {2, 2}), 1), {2, 1, 1, 4, 4, 3}, {2, 3}},
      {"scatter of NaN", scatter(doubles({1, kNan}), integers({0, 0}), doubles({kNan, 5})), {5, kNan}, {2}},
      {"update by mask", update(m, m > 2, -1.0), {0, 1, 2, -1, -1, -1}, {2, 3}},
      {"one_hot", one_hot(integers({1, -1}), 3), {0, 1, 0, 0, 0, 1}, {2, 3}},
      {"einsum", einsum("ij,jk->ki", {m, n}), {20, 56, 23, 68, 26, 80, 29, 92}, {4, 2}},
      {"einsum trace", einsum("ii", {count_to(9, {3, 3})}), {12}, {}},
      {"einsum sum", einsum("ij->j", {m}), {3, 5, 7}, {3}},
      {"einsum of three",
       einsum("i,j,k->jk", {doubles({1, 2}), doubles({3, 4}), doubles({5, 6, 7})}),
       {45, 54, 63, 60, 72, 84},
       {2, 3}},
      {"einsum batch", einsum("bi, bi -> b", {m, m}), {5, 50}, {2}},
      {"einsum dots",
       einsum("...i,...i", {count_to(4, {1, 2, 2}), count_to(12, {3, 2, 2})}),
       {1, 13, 5, 33, 9, 53},
       {3, 2}},
      {"einsum dots apart", einsum("i...,...j->j...", {m, count_to(3, {1, 3})}), {0, 0, 0, 3, 5, 7, 6, 10, 14}, {3, 3}},
      {"einsum dots of nothing", einsum("i...->...i", {doubles({1, 2})}), {1, 2}, {2}},
      {"einsum dots of different ranks", einsum("...,...i->...i", {doubles({1, 2}), m}), {0, 1, 2, 6, 8, 10}, {2, 3}},
      {"tensordot", tensordot(count_to(24, {2, 3, 4}), count_to(12, {4, 3}), {1, 2}, {1, 0}), {440, 1232}, {2}},
      {"logsumexp inf",
       logsumexp(doubles({kInf, 1, -kInf, -kInf, kInf, -kInf, -kInf, 0, kNan, 1}, {5, 2}), {1}, false),
       {kInf, -kInf, kInf, 0, kNan},
       {5}},
      {"logsumexp of integers", logsumexp(integers({1, 2, 3}), {0}), {3.40760596444438}, {1}},
      {"softmax inf",
       softmax(doubles({kInf, 1, -kInf, -kInf, -kInf, 0}, {3, 2}), {1}),
       {kNan, kNan, kNan, kNan, 0, 1},
       {3, 2}},
      {"softmax of integers", softmax(integers({1, 2, 3}), {0}), {0.0900305732, 0.244728471, 0.665240956}, {3}},
      {"softmax of bytes",
       softmax(cast(integers({1, 2, 3}), Dtype::u8), {0}),
       {0.0900305732, 0.244728471, 0.665240956},
       {3}},
      {"softmax of far integers", softmax(integers({-2147483647, 2147483647}), {0}), {0, 1}, {2}},
      {"log_softmax inf",
       log_softmax(doubles({kInf, 1, -kInf, -kInf, -kInf, 0}, {3, 2}), {1}),
       {kNan, kNan, kNan, kNan, -kInf, 0},
       {3, 2}},
      {"log_softmax of large",
       log_softmax(cast(doubles({10000, 10001}), Dtype::f32), {0}),
       {-1.3132616875, -0.3132616875},
       {2}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(row.value.shape(), row.shape);
    expect_values(row.value, row.expected, row.value.dtype() == Dtype::f64 ? 1e-14 : 3e-7);
  }
}

TEST(Numpy, Gradients) {
  const Array x = random_array({3, 4}, -2, 2, 1), y = random_array({4, 2}, -2, 2, 2),
              z = random_array({2, 2}, -2, 2, 3);
  const std::vector<std::pair<const char*, testing::Function>> functions{
      {"cumsum", [](auto& v) { return cumsum(v[0], 1); }},
      {"norm", [](auto& v) { return norm(v[0], {1}); }},
      {"roll", [](auto& v) { return roll(v[0], 1, 1); }},
      {"tile",
       [](auto& v) {
         return tile(v[0], {2, 1, 2});
       }},
      {"tril", [](auto& v) { return tril(v[0]); }},
      {"einsum",
       [](auto& v) {
         return einsum("ij,jk,kl->il", {v[0], v[1], v[2]});
       }},
      {"tensordot", [](auto& v) { return tensordot(v[0], v[1], {1}, {0}); }},
      {"sort", [](auto& v) { return sort(v[0], 0); }},
      {"topk", [](auto& v) { return topk(v[0], 2, 1).values; }},
      {"take_along_axis",
       [](auto& v) {
         return take_along_axis(v[0], integers({1, -1, 1, 0}, {1, 4}), 0);
       }},
      {"scatter",
       [](auto& v) {
         return scatter(v[0], integers({1, 1}), take(v[0], integers({0, 2})) * 3);
       }},
      {"slice by a step beyond the axis", [](auto& v) { return slice(v[0], {Index::range(1, {}, 1LL << 40)}); }},
      {"logsumexp", [](auto& v) { return logsumexp(v[0], {1}); }},
      {"log_softmax", [](auto& v) { return log_softmax(v[0], {1}); }},
  };
  for (const auto& [name, function] : functions) {
    SCOPED_TRACE(name);
    expect_gradients(function, {x, y, z});
  }
  // Infinities are equal numbers beyond all others.
  const Tensor far = doubles({kInf, 1000, -kInf, -kInf, kInf, kInf, -kInf, 5, kNan, 1}, {5, 2});
  expect_values(gradients(sum(logsumexp(far, {1})), {far})[0], {1, 0, 0.5, 0.5, 0.5, 0.5, 0, 1, kNan, kNan}, 0);
  const Tensor zero = doubles({0, 0});
  expect_values(gradients(norm(zero), std::vector<Tensor>{zero})[0], {0, 0}, 0);
}

TEST(Indexing, ComputedIndicesOutOfRangeGiveNoNumber) {
  const Tensor x = doubles({1, 2, 3}), far = integers({0, 1}) * 5 - 1;  // -1 and 4, known to the backend alone
  expect_values(take(x, far), {3, kNan}, 0);
  expect_values(take(integers({1, 2, 3}), far), {3, 2147483647}, 0);
  expect_values(scatter_add({3}, far, doubles({5, 6})), {kNan, kNan, kNan}, 0);
  expect_values(one_hot(far, 2), {0, 1, kNan, kNan}, 0);
  expect_values(take_along_axis(doubles({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}), reshape(far, {1, 2}), 0), {7, kNan}, 0);
  const std::vector<Tensor> g = gradients(sum(take(x, far) * doubles({2, 3})), std::vector<Tensor>{x});
  expect_values(g[0], {kNan, kNan, kNan}, 0);
}

}  // namespace
}  // namespace nixie
