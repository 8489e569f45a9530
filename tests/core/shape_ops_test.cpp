// Views, indexing, concatenation: values against plain index arithmetic, gradients, bad input.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

// 0, 1, 2, ... of a shape.
Array counted(const Shape& shape) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.size(); ++i) values.push_back(static_cast<double>(i));
  return Array::from(values, shape);
}

struct SliceCase {
  std::vector<Index> indices;
  Shape shape;
  std::vector<double> values;
};

const auto all = Index::all();
Index range(std::optional<std::int64_t> a, std::optional<std::int64_t> b = {}, std::int64_t step = 1) {
  return Index::range(a, b, step);
}

TEST(Views, SliceAsNumpyDoes) {
  const Tensor x = counted({3, 4});
  const SliceCase cases[] = {
      {{0}, {4}, {0, 1, 2, 3}},
      {{-1}, {4}, {8, 9, 10, 11}},
      {{all, 1}, {3}, {1, 5, 9}},
      {{1, -2}, {}, {6}},
      {{range(1)}, {2, 4}, {4, 5, 6, 7, 8, 9, 10, 11}},
      {{all, range(0, 4, 2)}, {3, 2}, {0, 2, 4, 6, 8, 10}},
      {{all, range({}, {}, -1)}, {3, 4}, {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}},
      {{range({}, {}, -2), range(3, 0, -2)}, {2, 2}, {11, 9, 3, 1}},
      {{range(2, 1)}, {0, 4}, {}},
      {{range(-2, 100), range(-100, 1)}, {2, 1}, {4, 8}},
      {{}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
  };
  for (const SliceCase& row : cases) {
    const Tensor y = slice(x, row.indices);
    EXPECT_EQ(y.shape(), row.shape);
    expect_values(y, row.values, 0);
    expect_values(
        square(y) + 1,
        [&] {
          std::vector<double> v = row.values;
          for (double& e : v) e = e * e + 1;
          return v;
        }(),
        0);
    if (y.shape().size() > 0)
      expect_gradients([&](const std::vector<Tensor>& v) { return square(slice(v[0], row.indices)); },
                       {random_array({3, 4}, -1, 1, 1)});
  }
}

TEST(Views, UpdateReplacesJustTheSlice) {
  const SliceCase cases[] = {
      {{1}, {3, 4}, {0, 1, 2, 3, -1, -1, -1, -1, 8, 9, 10, 11}},
      {{all, range(0, 4, 2)}, {3, 4}, {-1, 1, -1, 3, -1, 5, -1, 7, -1, 9, -1, 11}},
      {{range({}, {}, -2), 0}, {3, 4}, {-1, 1, 2, 3, 4, 5, 6, 7, -1, 9, 10, 11}},
      {{2, 3}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -1}},
      {{range(1, 1)}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
  };
  for (const SliceCase& row : cases) expect_values(update(counted({3, 4}), row.indices, -1), row.values, 0);
  const Tensor value = Array::from(std::vector<double>{50, 60, 70}, {3});
  expect_values(update(counted({3, 3}), {all, range({}, {}, -2)}, slice(value, {range(0, 2)})),
                {60, 1, 50, 60, 4, 50, 60, 7, 50}, 0);
  expect_gradients(
      [](const std::vector<Tensor>& v) {
        return square(update(v[0], {all, range(1, 3)}, v[1]));
      },
      {random_array({3, 4}, -1, 1, 1), random_array({2}, -1, 1, 2)});
}

TEST(Views, PadsWithAnElementOfTheType) {
  const std::tuple<Dtype, double, double> table[] = {{Dtype::boolean, 7, 1},      {Dtype::u8, 300, 255},
                                                     {Dtype::i8, -300, -128},     {Dtype::i32, 2.5, 2},
                                                     {Dtype::f16, 1e5, INFINITY}, {Dtype::bf16, 1.001953125, 1}};
  for (const auto& [dtype, value, stored] : table)
    expect_values(cast(pad(cast(counted({1}), dtype), {1}, {0}, value), Dtype::f64), {stored, 0}, 0);
}

TEST(Views, ReshapePermutePad) {
  const Tensor x = counted({2, 3, 2});
  expect_values(transpose(x, 0, 1), {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}, 0);
  expect_values(reshape(transpose(x, 0, 1), {2, -1}), {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}, 0);
  for (const Axes& order : {Axes{1, 2, 0}, Axes{-2, -1, -3}}) {  // from the end, and through the gradient as well
    expect_values(permute(x, order), {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}, 0);
    expect_gradients([&](const std::vector<Tensor>& v) { return square(permute(v[0], order)); }, {counted({2, 3, 2})});
  }
  expect_values(reshape(transpose(reshape(x, {3, 4})), {6, 2}) + 1, {1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}, 0);
  expect_values(pad(counted({2}), {1}, {2}, 9), {9, 0, 1, 9, 9}, 0);
  expect_values(transpose(pad(counted({1, 2}), {1, 0}, {0, 1})), {0, 0, 0, 1, 0, 0}, 0);
  expect_values(slice(pad(counted({3}), {2}, {2}, 7), {range({}, {}, -1)}), {7, 7, 2, 1, 0, 7, 7}, 0);
  expect_values(slice(pad(counted({3}), {2}, {2}, 7), {range(0, 7, 2)}), {7, 0, 2, 7}, 0);
  expect_values(pad(pad(counted({1}), {1}, {0}, 5), {1}, {1}, 6), {6, 5, 0, 6}, 0);
  EXPECT_EQ(flatten(x).shape(), (Shape{2, 6}));
  EXPECT_EQ(squeeze(expand_dims(x, {0, -1}), {0, -1}).shape(), x.shape());
  const testing::Function chains[] = {
      [](const std::vector<Tensor>& v) {
        return square(reshape(transpose(v[0]), {2, -1}));
      },
      [](const std::vector<Tensor>& v) {
        return exp(pad(flip(v[0], {0, 2}), {1, 0, 2}, {0, 1, 0}, 0.5));
      },
      [](const std::vector<Tensor>& v) {
        return square(broadcast_to(slice(v[0], {0, range(0, 1)}), {4, 2}));
      },
  };
  for (const auto& f : chains) expect_gradients(f, {random_array({2, 3, 2}, -1, 1, 4)});
}

TEST(Views, Leaves) {
  expect_values(arange(4), {0, 1, 2, 3}, 0);
  expect_values(coordinate({2, 3}, 0), {0, 0, 0, 1, 1, 1}, 0);
  expect_values(coordinate({2, 3}, -1) * 2 + 1, {1, 3, 5, 1, 3, 5}, 0);
  expect_values(full({2, 1}, 3, Dtype::i32), {3, 3}, 0);
  expect_values(zeros_like(counted({2})) - ones_like(counted({2})), {-1, -1}, 0);
  EXPECT_EQ(arange(4).dtype(), Dtype::i32);
  EXPECT_EQ(ones_like(counted({2})).dtype(), Dtype::f64);
}

TEST(Views, ConcatStackGather) {
  const Tensor a = counted({2, 2}), b = counted({2, 1}) + 10;
  expect_values(concat({a, b}, 1), {0, 1, 10, 2, 3, 11}, 0);
  expect_values(concat({a, b, a * 2}, -1), {0, 1, 10, 0, 2, 2, 3, 11, 4, 6}, 0);
  expect_values(square(concat({a, a}, 0)) + 1, {1, 2, 5, 10, 1, 2, 5, 10}, 0);
  expect_values(stack({counted({2}), counted({2}) + 5}, -1), {0, 5, 1, 6}, 0);
  const Tensor rows = Array::from(std::vector<std::int32_t>{2, 0, 2, -1}, {4});
  expect_values(take(counted({3, 2}), rows), {4, 5, 0, 1, 4, 5, 4, 5}, 0);
  expect_values(take(counted({2, 3}), rows, 1), {2, 0, 2, 2, 5, 3, 5, 5}, 0);
  expect_values(scatter_add({3, 1}, rows, reshape(counted({4}) + 1, {4, 1})), {2, 0, 8}, 0);
  expect_values(one_hot(rows, 3), {0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 1}, 0);
  expect_gradients(
      [](const std::vector<Tensor>& v) {
        return square(concat({v[0], sin(v[1]), v[0]}, 1));
      },
      {random_array({2, 2}, -1, 1, 1), random_array({2, 3}, -1, 1, 2)});
  expect_gradients([&](const std::vector<Tensor>& v) { return square(take(v[0], rows)); },
                   {random_array({3, 2}, -1, 1, 3)});
  expect_gradients(
      [&](const std::vector<Tensor>& v) {
        return square(scatter_add({3, 2}, rows, v[0]));
      },
      {random_array({4, 2}, -1, 1, 3)});
}

TEST(Views, RandomNumbersDependOnStreamStepAndElementAlone) {
  const std::uint64_t stream = random_stream(1, "a"), other = random_stream(1, "b");
  const auto first = testing::values_of(uniform({1000}, stream, 3));
  EXPECT_EQ(first, testing::values_of(uniform({10, 100}, stream, 3)));
  EXPECT_NE(first, testing::values_of(uniform({1000}, stream, 4)));
  EXPECT_NE(first, testing::values_of(uniform({1000}, other, 3)));
  double mean = 0;
  for (double value : testing::values_of(bernoulli({100000}, 0.3, stream))) mean += value / 100000;
  EXPECT_NEAR(mean, 0.3, 0.006);
}

TEST(Views, BadInput) {
  const Tensor x = zeros({2, 3});
  EXPECT_FAULT(usage, "reshape: [2, 3] has 6 elements, [4, 2] has 8", reshape(x, {4, 2}));
  EXPECT_FAULT(usage, "reshape: [2, 3] does not fill [4, -1]", reshape(x, {4, -1}));
  EXPECT_FAULT(usage, "slice: position 2 is out of range for size 2", slice(x, {2}));
  EXPECT_FAULT(usage, "slice: 3 indices for shape [2, 3]", slice(x, {0, 0, 0}));
  EXPECT_FAULT(usage, "slice: the step is 0", Index::range(0, 1, 0));
  EXPECT_FAULT(usage, "an axis is named twice", permute(x, {0, 0}));
  EXPECT_FAULT(usage, "squeeze: axis 0 of [2, 3] has size 2", squeeze(x, {0}));
  EXPECT_FAULT(usage, "concat: shapes [2, 3] and [3, 3] differ outside axis 1", concat({x, zeros({3, 3})}, 1));
  EXPECT_FAULT(usage, "concat: no inputs", concat({}, 0));
  EXPECT_FAULT(usage, "do not broadcast", broadcast_to(x, {3, 3}));
  EXPECT_FAULT(usage, "axis 2 is out of range for shape [2, 3]", sum(x, {2}));
  EXPECT_FAULT(usage, "has a negative size", Shape({-1}));
  EXPECT_FAULT(usage, "a shape of 65 axes, expected at most 64", Shape(std::vector<std::int64_t>(65, 1)));
  EXPECT_FAULT(usage, "depends on \"x\"",
               evaluate(Tensor::make(Input{.name = "x"}, {}, {}, Dtype::f32), testing::cpu()));
}

}  // namespace
}  // namespace nixie
