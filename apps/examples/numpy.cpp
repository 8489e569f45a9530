// numpy: the expressions of docs/numpy.md, each with the shape and the values that numpy gives. A test compares the
// page with this file, and runs it.
#include <fmt/ranges.h>

#include <cmath>

#include "nixie/backends/registry.h"
#include "nixie/core/base/random.h"
#include "nixie/core/graph/backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"

using namespace nixie;

int wrong = 0, compared = 0;

void compare(const char* text, const Tensor& found, const Shape& shape, const std::vector<double>& values) {
  const Tensor value = evaluate(found);
  const std::vector<double> numbers = value.array().to(Dtype::f64).to_vector<double>();
  bool is_same = value.shape() == shape && numbers.size() == values.size();
  for (std::size_t i = 0; is_same && i < numbers.size(); ++i) is_same = std::abs(numbers[i] - values[i]) < 1e-5;
  ++compared;
  if (is_same) return;
  ++wrong;
  fmt::print("{}: found {} {}, numpy has {} {}\n", text, value.shape(), numbers, shape, values);
}
#define expect(...) compare(#__VA_ARGS__, __VA_ARGS__)

void expect_type(const Tensor& x, Dtype type) {
  ++compared;
  if (x.dtype() == type) return;
  ++wrong;
  fmt::print("found {}, expected {}\n", to_string(x.dtype()), to_string(type));
}

void created(const std::vector<float>& numbers) {
  expect(Tensor(Array::from(numbers, {2, 2})), {2, 2}, {1, 2, 3, 4});
  expect(Tensor{{1, 2}, {3, 4}}, {2, 2}, {1, 2, 3, 4});
  expect(zeros({2, 3}), {2, 3}, {0, 0, 0, 0, 0, 0});
  expect(full({2}, 7.5), {2}, {7.5, 7.5});
  expect(arange(4), {4}, {0, 1, 2, 3});
  expect(linspace(0, 1, 3), {3}, {0, 0.5, 1});
  expect(eye(2), {2, 2}, {1, 0, 0, 1});
}

void shaped(const Tensor& x, const Tensor& y) {
  expect(reshape(x, {3, -1}), {3, 2}, {1, 2, 3, 4, 5, 6});
  expect(transpose(x), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect(permute(x, {1, 0}), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect(moveaxis(x, 0, 1), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect(expand_dims(y, 0), {1, 3}, {10, 20, 30});
  expect(broadcast_to(y, {2, 3}), {2, 3}, {10, 20, 30, 10, 20, 30});
  expect(concat({x, x}, 1), {2, 6}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  expect(stack({y, y}), {2, 3}, {10, 20, 30, 10, 20, 30});
  expect(split(x, 3, 1)[0], {2, 1}, {1, 4});
  expect(split(x, {1}, 1)[1], {2, 2}, {2, 3, 5, 6});
  expect(unstack(x, 0)[1], {3}, {4, 5, 6});
  expect(tile(y, {2}), {6}, {10, 20, 30, 10, 20, 30});
  expect(repeat(y, 2), {6}, {10, 10, 20, 20, 30, 30});
  expect(pad(y, {1}, {0}), {4}, {0, 10, 20, 30});
  expect(flip(y, 0), {3}, {30, 20, 10});
  expect(roll(y, 1, 0), {3}, {30, 10, 20});
  expect(tril(x), {2, 3}, {1, 0, 0, 4, 5, 0});
}

void indexed(const Tensor& x, const Tensor& y, const Tensor& order) {
  expect(slice(x, {0}), {3}, {1, 2, 3});
  expect(slice(x, {0, Index::range(1)}), {2}, {2, 3});
  expect(slice(x, {Index::all(), -1}), {2}, {3, 6});
  expect(slice(y, {Index::range({}, {}, -1)}), {3}, {30, 20, 10});
  expect(take(x, order), {2, 3}, {4, 5, 6, 1, 2, 3});
  expect(take_along_axis(x, argmax(x, 1), 1), {2, 1}, {3, 6});
  expect(where(x > 3, x, 0), {2, 3}, {0, 0, 0, 4, 5, 6});
  expect(update(x, {1, 2}, 0), {2, 3}, {1, 2, 3, 4, 5, 0});
  expect(update(x, x > 4, 0), {2, 3}, {1, 2, 3, 4, 0, 0});
  expect(scatter(y, {0, 0}, 7), {3}, {7, 20, 30});
  expect(y + scatter_add({3}, {0, 0}, {1, 2}), {3}, {13, 20, 30});
  expect(scatter_max(y, {0, 2}, 25), {3}, {25, 20, 30});
}

void elementwise(const Tensor& x, const Tensor& y) {
  expect(x + y, {2, 3}, {11, 22, 33, 14, 25, 36});
  expect(y / x, {2, 3}, {10, 10, 10, 2.5, 4, 5});
  expect(pow(x, 2), {2, 3}, {1, 4, 9, 16, 25, 36});
  expect(floor_divide(-y, 7), {3}, {-2, -3, -5});
  expect(-y % 7, {3}, {4, 1, 5});
  expect(trunc_divide(-y, 7), {3}, {-1, -2, -4});
  expect(fmod(-y, 7), {3}, {-3, -6, -2});
  expect(maximum(x, 3), {2, 3}, {3, 3, 3, 4, 5, 6});
  expect(clip(x, 2, 5), {2, 3}, {2, 2, 3, 4, 5, 5});
  expect(exp(x - x), {2, 3}, {1, 1, 1, 1, 1, 1});
  expect((x > 2) && (x < 5), {2, 3}, {0, 0, 1, 1, 0, 0});
  expect(is_nan(x / 0), {2, 3}, {0, 0, 0, 0, 0, 0});
  expect(cast(y / 4, Dtype::i32), {3}, {2, 5, 7});
}

void reduced(const Tensor& x, const Tensor& y) {
  expect(sum(x, 1, false), {2}, {6, 15});
  expect(sum(x, 1), {2, 1}, {6, 15});
  expect(sum(x, {0, 1}, false), {}, {21});
  expect(sum(x), {}, {21});
  expect(mean(x, 0, false), {3}, {2.5, 3.5, 4.5});
  expect(variance(x, 0, false), {3}, {2.25, 2.25, 2.25});
  expect(stddev(x, 0, false), {3}, {1.5, 1.5, 1.5});
  expect(max(x, 1, false), {2}, {3, 6});
  expect(argmax(x, 1, false), {2}, {2, 2});
  expect(any(x > 5, 1, false), {2}, {0, 1});
  expect(norm(x, 0, false), {3}, {4.1231056, 5.3851648, 6.7082039});
  expect(count_nonzero(x > 2, 1, false), {2}, {1, 3});
  expect(cumsum(x, 1), {2, 3}, {1, 3, 6, 4, 9, 15});
  expect(cumprod(x, 1), {2, 3}, {1, 2, 6, 4, 20, 120});
  expect(cummax(y, 0), {3}, {10, 20, 30});
  expect(diff(y), {2}, {10, 10});
  expect(sort(-x), {2, 3}, {-3, -2, -1, -6, -5, -4});
  expect(argsort(-x), {2, 3}, {2, 1, 0, 2, 1, 0});
  expect(searchsorted(y, {15, 30}), {2}, {1, 2});
}

void multiplied(const Tensor& x, const Tensor& y) {
  expect(matmul(x, y), {2}, {140, 320});
  expect(matmul(x, transpose(x)), {2, 2}, {14, 32, 32, 77});
  expect(einsum("ij,kj->ik", {x, x}), {2, 2}, {14, 32, 32, 77});
  expect(outer(y, y / 10), {3, 3}, {10, 20, 30, 20, 40, 60, 30, 60, 90});
  expect(tensordot(x, x, {0, 1}, {0, 1}), {}, {91});
}

void typed(const Tensor& x) {
  expect_type(x * 0.5, Dtype::f32);
  expect_type(x + 1, Dtype::f32);
  expect_type(arange(4) / 2, Dtype::f32);
  expect_type(mean(arange(4)), Dtype::f32);
  expect_type(sqrt(arange(4)), Dtype::f32);
  expect_type(argsort(x), Dtype::i32);
  expect_type(uniform({2, 2}, random_stream(1, "noise")), Dtype::f32);
}

int main() try {
  set_default_backend(make_backend("cpu"));
  const Tensor x = Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor y = Array::from(std::vector<float>{10, 20, 30}, {3}), order = 1 - arange(2);
  created({1, 2, 3, 4});
  shaped(x, y);
  indexed(x, y, order);
  elementwise(x, y);
  reduced(x, y);
  multiplied(x, y);
  typed(x);
  fmt::print("{} expressions, {} differ from numpy\n", compared, wrong);
  return wrong == 0 ? 0 : 1;
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return error.exit_code();
}
