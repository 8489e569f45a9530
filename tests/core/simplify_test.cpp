// Simplify: what is computed once, not at all, or on fewer elements, with the same result.
#include "nixie/core/passes/simplify.h"

#include "nixie/core/ops/elementwise.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

TEST(Simplify, MergesEqualExpressionsAndDropsNeutralElements) {
  const Tensor x = Array(Dtype::f32, {4});
  const auto nodes = [](const Tensor& y) { return topological(simplify({.outputs = {y}})).size(); };
  EXPECT_EQ(nodes(exp(x) + exp(x)), 3u);
  EXPECT_EQ(nodes(x * 1 + 0), 1u);
  EXPECT_EQ(nodes(reshape(reshape(x, {2, 2}), {4})), 1u);
  EXPECT_EQ(nodes(transpose(transpose(reshape(x, {2, 2})))), 2u);
  EXPECT_EQ(nodes(cast(cast(x, Dtype::f32), Dtype::f32)), 1u);
  EXPECT_EQ(nodes(full({2}, Tensor(1.5) * 3 - 0.5)), 1u);
  EXPECT_EQ(nodes(pow(x, 1)), 1u);
  EXPECT_EQ(nodes(pow(x, 2) + square(x)), 3u);
  const Tensor i = Array(Dtype::i32, {4}), f = pow(i, 2.5);
  EXPECT_EQ(nodes(pow(i, 2) + square(i)), 5u);  // of integers as it is
  EXPECT_EQ(nodes(f + f), 4u);                  // as is any other power
  const auto stream = random_stream(0, "s");
  EXPECT_EQ(nodes(uniform({4}, stream) + uniform({4}, stream)), 3u);      // the same numbers
  EXPECT_EQ(nodes(uniform({4}, stream) + uniform({4}, stream + 1)), 4u);  // other numbers
}

// Factors that repeat along the summed axes: nested, negative, of several sums that are one then.
TEST(Simplify, TakesCommonFactorsOutOfSums) {
  const Array x = random_array({2, 3, 5}, -1, 1, 1), y = random_array({2, 3, 5}, -1, 1, 2),
              c = random_array({1, 3, 1}, -1, 1, 3), rows = random_array({2, 1, 1}, -1, 1, 4);
  const Tensor u = x, v = y, channel = c, row = rows;
  struct Case {
    Tensor sum;
    std::size_t reductions, multiplications;
    std::function<double(int n, int k, int i)> term;
    bool by_row;
  };
  const auto at = [](const Array& array, int n, int k, int i) {
    const Shape& s = array.shape();
    return array.to_vector<double>()[static_cast<std::size_t>(((s[0] > 1 ? n : 0) * s[1] + (s[1] > 1 ? k : 0)) * s[2] +
                                                              (s[2] > 1 ? i : 0))];
  };
  const auto ux = [&](int n, int k, int i) { return at(x, n, k, i); };
  const auto cx = [&](int n, int k, int i) { return at(x, n, k, i) * at(c, n, k, i); };
  const Case cases[] = {
      {sum(u * channel, {0, 2}), 1, 1, cx, false},
      {sum(channel * -(u * channel) * v, {0, 2}), 1, 3,
       [&](int n, int k, int i) { return -cx(n, k, i) * at(c, n, k, i) * at(y, n, k, i); }, false},
      {sum(u * channel, {0, 2}) + sum(u, {0, 2}), 1, 1, [&](int n, int k, int i) { return cx(n, k, i) + ux(n, k, i); },
       false},
      {sum(u * row, {0, 2}), 1, 1, [&](int n, int k, int i) { return ux(n, k, i) * at(rows, n, k, i); }, false},
      {sum(u * row * channel, {1, 2}), 1, 2, [&](int n, int k, int i) { return cx(n, k, i) * at(rows, n, k, i); },
       true},
      {sum(square(u * channel), {0, 2}), 1, 1, [&](int n, int k, int i) { return std::pow(cx(n, k, i), 2); }, false},
      {sum(broadcast_to(channel, {2, 3, 5}) * channel, {0, 2}), 1, 1,
       [&](int n, int k, int i) { return at(c, n, k, i) * at(c, n, k, i); }, false},
  };
  for (const Case& of : cases) {
    std::size_t reductions = 0, multiplications = 0;
    for (const Tensor& node : topological(simplify({.outputs = {of.sum}}))) {
      reductions += std::holds_alternative<Reduce>(node.node().op);
      if (const auto* map = std::get_if<Map>(&node.node().op)) multiplications += map->op->name == "mul";
    }
    const auto which = &of - cases;
    EXPECT_EQ(reductions, of.reductions) << which;
    EXPECT_EQ(multiplications, of.multiplications) << which;
    std::vector<double> expected(of.by_row ? 2 : 3, 0);
    for (int n = 0; n < 2; ++n)
      for (int k = 0; k < 3; ++k)
        for (int i = 0; i < 5; ++i) expected[static_cast<std::size_t>(of.by_row ? n : k)] += of.term(n, k, i);
    testing::expect_values(of.sum, expected, 1e-12);
  }
}

// A gradient passes a ReLU where the pooling's output is above zero, so x is read for the index alone.
TEST(Simplify, GatesAreBeforeMaxPoolings) {
  const Shape shape{2, 3, 7, 6};
  std::vector<float> values;  // with equal ones in a window, and zeros
  for (double value : random_array(shape, -4, 4, 1).to_vector<double>()) values.push_back(std::round(value));
  const Tensor x = Array::from(values, shape);
  struct Case {
    const char* what;
    PoolOptions options;
    std::function<Tensor(const Tensor&)> layer;
    bool moves;
  };
  const auto relus = [](const Tensor& z) { return relu(z); };
  const Case cases[] = {
      {"windows side by side", {.window = {2}}, relus, true},
      {"windows that overlap", {.window = {3}, .stride = {2}}, relus, true},
      {"padding", {.window = {3, 2}, .stride = {2, 1}, .pad = {1, 0}}, relus, true},
      {"a slope below zero", {.window = {2}}, [](const Tensor& z) { return relu(z, 0.5); }, false},
      {"a gate of other values", {.window = {2}}, [](const Tensor& z) { return maximum(z, 0); }, false},
  };
  for (const Case& of : cases) {
    const Tensor z = of.layer(x), y = max_pool(z, of.options),
                 weights = cast(random_array(y.shape(), -1, 1, 2), Dtype::f32);
    const Tensor dx = gradients(sum(y * weights), {x})[0];
    std::size_t whole = 0, pooled = 0;
    for (const Tensor& node : topological(simplify({.outputs = {dx}})))
      if (node.dtype() == Dtype::boolean) ++(node.shape() == shape ? whole : pooled);
    EXPECT_EQ(whole == 0, of.moves) << of.what;
    EXPECT_EQ(pooled, of.moves) << of.what;

    const std::vector<double> activations = testing::values_of(z), given = testing::values_of(weights),
                              slopes = testing::values_of(gradients(sum(z), {x})[0]);
    const Pool& pool = std::get<Pool>(y.node().op);
    std::vector<double> expected(activations.size(), 0);
    for (int plane = 0, at = 0; plane < 6; ++plane)
      for (int p = 0; p < y.shape()[2]; ++p)
        for (int q = 0; q < y.shape()[3]; ++q, ++at) {
          int best = -1;
          for (int r = 0; r < pool.window[1]; ++r)
            for (int s = 0; s < pool.window[2]; ++s) {
              const int h = p * pool.stride[1] - pool.pad[1] + r, w = q * pool.stride[2] - pool.pad[2] + s;
              if (h < 0 || h >= 7 || w < 0 || w >= 6) continue;
              const int index = (plane * 7 + h) * 6 + w;
              if (best < 0 ||
                  activations[static_cast<std::size_t>(index)] > activations[static_cast<std::size_t>(best)])
                best = index;
            }
          expected[static_cast<std::size_t>(best)] +=
              given[static_cast<std::size_t>(at)] * slopes[static_cast<std::size_t>(best)];
        }
    testing::expect_values(dx, expected, 1e-6);
  }
}

// A gradient that is reduced to one value need not be there: the pooled one and a number of zeros say the same.
TEST(Simplify, ReductionsAreBeforeMaxPoolings) {
  const Tensor x = random_array({2, 3, 6, 6}, -4, 4, 1);
  const auto all = [](const Tensor& y) { return all_axes(y.shape()); };
  struct Case {
    const char* what;
    PoolOptions options;
    std::function<Tensor(const Tensor&)> value;
    std::function<double(const std::vector<double>&)> expected;
    bool moves;
  };
  const auto fold = [](double first, auto step) {
    return [=](const std::vector<double>& dx) {
      double result = first;
      for (const double each : dx) result = step(result, each);
      return result;
    };
  };
  const auto magnitudes = fold(0, [](double a, double b) { return a + std::abs(b); });
  const auto sums = [&](const Tensor& y) { return sum(abs(y), all(y)); };
  const Case cases[] = {
      {"a sum", {.window = {2}}, sums, magnitudes, true},
      {"one window", {.window = {6}}, sums, magnitudes, true},
      {"rows that no window has", {.window = {4}}, sums, magnitudes, true},
      {"zeros, which the rest is",
       {.window = {2}},
       [&](const Tensor& y) { return sum(cast(y == 0, Dtype::i32), all(y)); },
       fold(0, [](double a, double b) { return a + (b == 0); }),
       true},
      {"a formula that is not 0 of 0",
       {.window = {3}},
       [&](const Tensor& y) { return mean(cos(y), all(y)); },
       [](const std::vector<double>& dx) {
         double total = 0;
         for (const double each : dx) total += std::cos(each);
         return total / static_cast<double>(dx.size());
       },
       true},
      {"the largest",
       {.window = {2}},
       [&](const Tensor& y) { return max(y - 1, all(y)); },
       fold(-1e9, [](double a, double b) { return std::max(a, b - 1); }),
       true},
      {"the least, by another value's scale",
       {.window = {2}},
       [&](const Tensor& y) { return min(y * max(y, all(y), true), all(y)); },
       [](const std::vector<double>& dx) { return *std::ranges::min_element(dx) * *std::ranges::max_element(dx); },
       true},
      {"windows that overlap", {.window = {3}, .stride = {1}}, sums, magnitudes, false},
      {"a sum of each channel",
       {.window = {2}},
       [&](const Tensor& y) {
         return sum(sum(abs(y), {2, 3}), {0, 1});
       },
       magnitudes,
       false},
      {"beside another array",
       {.window = {2}},
       [&](const Tensor& y) { return sum(abs(y + 0 * x), all(y)); },
       magnitudes,
       false},
  };
  for (const Case& of : cases) {
    const Tensor y = max_pool(x, of.options), weights = random_array(y.shape(), -1, 1, 2);
    const Tensor dx = gradients(sum(y * weights), {x})[0], value = of.value(dx);
    const std::vector<Tensor> nodes = topological(simplify({.outputs = {value}}));
    EXPECT_EQ(std::ranges::none_of(nodes,
                                   [](const Tensor& node) {
                                     const auto* pool = std::get_if<Pool>(&node.node().op);
                                     return pool && pool->role == PoolRole::input_grad;
                                   }),
              of.moves)
        << of.what;
    EXPECT_NEAR(testing::values_of(value)[0], of.expected(testing::values_of(dx)), 1e-5) << of.what;
  }
}

// Whether a product of halves in f32 is finite is a question to its operands.
TEST(Simplify, ProductsOfHalvesAreFiniteWhereTheirOperandsAre) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = NAN;
  struct Case {
    const char* what;
    Dtype operands, product;
    double a, b;  // one element of each
    std::int64_t terms;
    bool is_finite, is_moved;
  };
  const Case cases[] = {
      {"finite", Dtype::f16, Dtype::f32, 65504, -65504, 3, true, true},
      {"an infinity on the left", Dtype::f16, Dtype::f32, kInfinity, 0, 3, false, true},
      {"a NaN on the right", Dtype::f16, Dtype::f32, 0, kNaN, 3, false, true},
      {"one term", Dtype::f16, Dtype::f32, 1, -kInfinity, 1, false, true},
      {"the operands have more elements", Dtype::f16, Dtype::f32, kInfinity, 1, 30, false, false},
      {"halves, which may overflow", Dtype::f16, Dtype::f16, 1, 1, 3, true, false},
      {"bf16 has f32's range", Dtype::bf16, Dtype::f32, 1e30, 1e30, 3, false, false},
      {"f32", Dtype::f32, Dtype::f32, 1, 1, 3, true, false},
  };
  for (const Case& of : cases) {
    const auto operand = [&](Shape shape, double value, std::int64_t place) {
      Array array = random_array(std::move(shape), -1, 1, 1);
      array.data<double>()[place] = value;
      return evaluate(retype(array, of.operands), cpu()).array();
    };
    const Tensor a = operand({20, of.terms}, of.a, of.terms - 1),
                 b = operand({of.terms, 30}, of.b, (of.terms - 1) * 30);  // the same term of one element
    const Tensor product = Tensor::make(Matmul{}, {a, b}, {20, 30}, of.product), finite = all(is_finite(product));
    const std::vector<Tensor> nodes = topological(simplify({.outputs = {finite}}));
    EXPECT_EQ(std::ranges::none_of(nodes, [](const Tensor& x) { return std::holds_alternative<Matmul>(x.node().op); }),
              of.is_moved)
        << of.what;
    EXPECT_EQ(testing::values_of(finite)[0], of.is_finite) << of.what;
  }
}

// Arrays that are padded with zeros and fill a shape side by side need no sum.
TEST(Simplify, SumsOfPaddedArraysAreConcats) {
  struct Box {
    std::int64_t top, left, bottom, right;
  };
  struct Case {
    const char* what;
    std::vector<Box> boxes;
    std::size_t concats;
    double outside = 0;
  };
  const Case cases[] = {
      {"rows", {{2, 0, 4, 6}, {0, 0, 1, 6}, {1, 0, 2, 6}}, 1},
      {"a grid", {{0, 0, 2, 3}, {0, 3, 2, 6}, {2, 0, 4, 3}, {2, 3, 4, 6}}, 3},
      {"rows of other columns", {{0, 0, 2, 1}, {0, 1, 2, 6}, {2, 0, 4, 6}}, 2},
      {"a gap", {{0, 0, 2, 6}, {3, 0, 4, 6}}, 0},
      {"an overlap", {{0, 0, 3, 6}, {2, 0, 4, 6}}, 0},
      {"an overlap beside a gap", {{0, 0, 2, 6}, {1, 0, 3, 6}}, 0},
      {"a spiral", {{0, 0, 1, 5}, {0, 5, 3, 6}, {3, 1, 4, 6}, {1, 0, 4, 1}, {1, 1, 3, 5}}, 0},
      {"ones outside", {{0, 0, 2, 6}, {2, 0, 4, 6}}, 0, 1},
  };
  const Array values = random_array({4, 6}, -1, 1, 1);
  for (const Case& of : cases) {
    const Tensor x = values;
    Tensor whole;
    std::vector<double> expected(24, 0);
    for (const Box& box : of.boxes) {
      const Tensor part = slice(x, {Index::range(box.top, box.bottom), Index::range(box.left, box.right)});
      const Tensor term = pad(part, {box.top, box.left}, {4 - box.bottom, 6 - box.right}, of.outside);
      whole = whole.id() ? whole + term : term;
      for (int i = 0; i < 24; ++i) {
        const bool inside = box.top <= i / 6 && i / 6 < box.bottom && box.left <= i % 6 && i % 6 < box.right;
        expected[static_cast<std::size_t>(i)] +=
            inside ? values.to_vector<double>()[static_cast<std::size_t>(i)] : of.outside;
      }
    }
    std::size_t concats = 0, pads = 0;
    for (const Tensor& node : topological(simplify({.outputs = {whole}}))) {
      concats += std::holds_alternative<Concat>(node.node().op);
      pads += std::holds_alternative<Pad>(node.node().op);
    }
    EXPECT_EQ(concats, of.concats) << of.what;
    EXPECT_EQ(pads, of.concats > 0 ? 0 : of.boxes.size()) << of.what;
    testing::expect_values(whole, expected, 0);
  }
}

}  // namespace
}  // namespace nixie
