// Sums that are beyond the type of what they add up: of bytes in i64, and of squares of halves in f32, in whatever
// kernels they are computed.
#include "nixie/core/passes/precision.h"
#include "nixie/core/passes/simplify.h"
#include "nixie/core/passes/wide_squares.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

TEST(WideSums, BytesAreSummedInI64) {
  const std::int64_t count = 9'000'000;
  const Tensor bytes = full({count}, 255, Dtype::u8), signs = full({count}, -128, Dtype::i8);
  expect_values(sum(broadcast_to(evaluate(bytes, cpu()), {3, count})), {3 * 255 * 9e6}, 0);
  expect_values(sum(broadcast_to(signs, {3, count})), {-3 * 128 * 9e6}, 0);
  const Tensor few = full({5}, 200, Dtype::u8);
  expect_values(prod(few), {200. * 200 * 200 * 200 * 200}, 0);
  for (const Dtype dtype : {Dtype::u8, Dtype::i8, Dtype::boolean}) {
    SCOPED_TRACE(fmt::format("{}", dtype));
    const Tensor x = ones({4}, dtype);
    const Dtype wide = is_unsigned(dtype) ? Dtype::u64 : Dtype::i64;
    EXPECT_EQ(sum(x).dtype(), wide);
    EXPECT_EQ(prod(x).dtype(), wide);
    EXPECT_EQ(cumsum(x, 0).dtype(), wide);
    EXPECT_EQ(sum(slice(x, {Index::range(0, 1)})).dtype(), wide);
    EXPECT_EQ(sum(slice(x, {Index::range(0, 0)})).dtype(), wide);
    EXPECT_EQ(max(x).dtype(), dtype);
    expect_values(cumsum(x, 0), {1, 2, 3, 4}, 0);
    expect_values(mean(x), {1}, 0);
  }
  EXPECT_EQ(sum(ones({4}, Dtype::i32)).dtype(), Dtype::i32);
  expect_values(einsum("ij,jk->k", {full({2, 3}, 200, Dtype::u8), full({3, 2}, 200, Dtype::u8)}), {240000, 240000}, 0);
  expect_values(einsum("ii->", {full({3, 3}, 200, Dtype::u8)}), {600}, 0);
}

const struct {
  const char* name;
  Tensor (*of)(const Tensor& x);
} kSumsOfSquares[] = {
    {"variance", [](const Tensor& x) { return variance(x, {1}, false); }},
    {"variance of all", [](const Tensor& x) { return variance(x); }},
    {"stddev", [](const Tensor& x) { return stddev(x, {1}, false); }},
    {"norm", [](const Tensor& x) { return norm(x, {1}, false); }},
    {"root of the mean square", [](const Tensor& x) { return sqrt(mean(square(x), {1}, false)); }},
    {"root of the mean of x x",
     [](const Tensor& x) {
       return sqrt(mean(reshape(x * x, {4, 2, 8}), {1}, false));
     }},
    {"root of the mean of x^2",
     [](const Tensor& x) {
       return sqrt(mean(reshape(pow(x, 2), {4, 2, 8}), {2}, false));
     }},
    {"length of pairs", [](const Tensor& x) { return sqrt(square(x) + square(flip(x, {1}))); }},
    {"root of a part",
     [](const Tensor& x) {
       return sqrt(0.25 * sum(slice(pad(square(x), {0, 2}, {0, 0}), {Index::all(), Index(3)}), {0}));
     }},
    {"l2_pool",
     [](const Tensor& x) {
       return l2_pool(reshape(x, {1, 1, 4, 16}), {.window = {2}});
     }},
    {"lrn",
     [](const Tensor& x) {
       return 100 * local_response_norm(reshape(x, {4, 16, 1}), 5, 1, 0.5, 1);
     }},
    {"lrn of many channels",
     [](const Tensor& x) {
       return 100 * local_response_norm(reshape(x, {2, 32, 1}), 20, 1, 0.5, 1);
     }},
    {"standardize", [](const Tensor& x) { return 100 * standardize(x, {1}, 1e-5); }},
};

// Numbers up to 1000, whose squares are beyond f16, as halves hold them.
Array large() { return random_array({4, 16}, 300, 1000, 5).to(Dtype::f16); }

void expect_near(const std::vector<double>& values, const std::vector<double>& expected, double relative) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], relative * std::abs(expected[i])) << "at " << i;
}

TEST(WideSums, SquaresOfArraysOfHalves) {
  for (const auto& row : kSumsOfSquares) {
    const Tensor x = large();
    std::vector<double> expected = values_of(row.of(cast(x, Dtype::f64)));
    for (double& value : expected) value = value > 65504 ? INFINITY : value;
    SCOPED_TRACE(row.name);
    EXPECT_EQ(row.of(x).dtype(), Dtype::f16);
    const auto check = [&](const Tensor& found) {
      const std::vector<double> values = values_of(found);
      ASSERT_EQ(values.size(), expected.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        if (std::isinf(expected[i])) {
          EXPECT_EQ(values[i], expected[i]) << "at " << i;
        } else {
          EXPECT_NEAR(values[i], expected[i], 4e-3 * std::abs(expected[i])) << "at " << i;
        }
    };
    check(row.of(x));
    check(evaluate(row.of(x), cpu()));
  }
}

// Under a policy: of activations, which are halves after a product (by one).
TEST(WideSums, SquaresUnderAPolicy) {
  Array unit(Dtype::f32, {16, 16});
  for (std::size_t i = 0; i < 16; ++i) unit.data<float>()[17 * i] = 1;
  for (const PrecisionPolicy policy : {PrecisionPolicy::fp16, PrecisionPolicy::fp16_pure, PrecisionPolicy::bf16})
    for (const auto& row : kSumsOfSquares) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(policy), row.name));
      const auto result_of = [&](PrecisionPolicy of) {
        Step step(
            cpu(),
            [&](const Inputs& in) {
              // A product after it, too, so that what is between them is halves.
              const Tensor x = matmul(in["x"], in["unit"]), y = row.of(x), rows = reshape(y, {1, y.shape().size()});
              return Outputs{{"y", matmul(abs(rows) / 256, ones({y.shape().size(), 1}))}};
            },
            of);
        return step({{"x", Tensor(large().to(Dtype::f32))}, {"unit", unit}}).at("y").to_vector<double>();
      };
      expect_near(result_of(policy), result_of(PrecisionPolicy::ieee), policy == PrecisionPolicy::bf16 ? 2e-2 : 4e-3);
    }
}

TEST(WideSums, NothingElseStaysWide) {
  const Tensor x = Array(Dtype::f16, {8, 8});
  const struct {
    const char* name;
    Tensor root;
    std::size_t count;
  } kCases[] = {{"a square alone", square(x), 0},
                {"of tanh's slope", sum(x * (1 - x * x)), 0},
                {"a product of two", sum(x * relu(x)), 0},
                {"a sum of squares, and its reshape", sum(square(x)), 3},
                {"through a view", sum(reshape(square(x), {64})), 4},
                {"a root of it is none",
                 average_pool(reshape(sqrt(average_pool(reshape(square(x), {1, 1, 8, 8}), {})), {1, 1, 4, 4}), {}), 3},
                {"a rounded square", sum(cast(square(x), Dtype::bf16)), 0}};
  for (const auto& row : kCases)
    EXPECT_EQ(wide_squares(simplify({.outputs = {row.root}, .sets = {}})).size(), row.count) << row.name;
}

// A stored part of a sum of halves would be infinite from 65520 on.
TEST(WideSums, OfMoreClassesThanAHalfCounts) {
  const Tensor logits = zeros({1, 70000}, Dtype::f16);
  expect_values(logsumexp(logits, {1}, false), {std::log(70000.0)}, 1e-3);
  expect_values(sum(slice(softmax(logits, {1}), {Index(0), Index::range(0, 100)})), {100 / 70000.0}, 1e-2);
}

// In one kernel, which reads them as they are.
TEST(WideSums, ProductsOfBytesAreI32) {
  const auto drawn = [](Dtype dtype, const Shape& shape, unsigned seed) {
    return testing::random_array(shape, dtype == Dtype::u8 ? 0 : -128, dtype == Dtype::u8 ? 256 : 128, seed).to(dtype);
  };
  for (const Dtype left : {Dtype::u8, Dtype::i8})
    for (const Dtype right : {Dtype::u8, Dtype::i8}) {
      const Array a = drawn(left, {3, 40}, 1), b = drawn(right, {40, 5}, 2);
      const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
      std::vector<double> expected(15);
      for (std::size_t i = 0; i < 600; ++i) expected[i / 200 * 5 + i % 5] += x[i / 5] * y[i % 200];
      const Tensor z = matmul(a, b);
      EXPECT_EQ(z.dtype(), Dtype::i32);
      expect_values(z, expected, 0);
      Step step(cpu(), [](const Inputs& in) { return Outputs{{"z", matmul(in["a"], in["b"])}}; });
      EXPECT_EQ(step.plan({{"a", a}, {"b", b}}).kernels.size(), 1u);
    }
}

}  // namespace
}  // namespace nixie
