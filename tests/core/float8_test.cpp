// 8-bit floats as stored types: every number, roundings at and beside every tie, and every op that meets one.
#include "nixie/core/ops/formats.h"
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

constexpr Dtype kTypes[] = {Dtype::f8e4m3, Dtype::f8e5m2};

// OCP's definition of a code, in f64.
double number_of(Dtype dtype, int code) {
  const int mantissa_bits = dtype == Dtype::f8e4m3 ? 3 : 2, bias = dtype == Dtype::f8e4m3 ? 7 : 15;
  const int magnitude = code & 0x7f, exponent = magnitude >> mantissa_bits,
            mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if (dtype == Dtype::f8e4m3 && magnitude == 0x7f) return NAN;
  if (dtype == Dtype::f8e5m2 && exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  const double lead = exponent == 0 ? 0 : 1 << mantissa_bits;
  return sign * std::ldexp(lead + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
}

std::vector<double> positive_numbers(Dtype dtype) {
  std::vector<double> numbers;
  for (int code = 0; code < 0x7f && std::isfinite(number_of(dtype, code)); ++code)
    numbers.push_back(number_of(dtype, code));
  return numbers;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

Array all_codes(Dtype dtype) {
  Array codes(dtype, {256});
  for (int i = 0; i < 256; ++i) codes.bytes()[i] = static_cast<std::byte>(i);
  return codes;
}

// By the host, by a kernel, and back to the same code.
TEST(Float8, EveryCodeIsItsNumber) {
  for (const Dtype dtype : kTypes) {
    const Array codes = all_codes(dtype);
    const std::vector<double> host = codes.to_vector<double>(), kernel = testing::values_of(codes);
    const Array back = evaluate(cast(cast(codes, Dtype::f32) * 1.0, dtype), cpu()).array();
    for (int code = 0; code < 256; ++code) {
      const double expected = number_of(dtype, code);
      EXPECT_TRUE(same(host[static_cast<std::size_t>(code)], expected)) << dtype << " " << code;
      EXPECT_TRUE(same(kernel[static_cast<std::size_t>(code)], expected)) << dtype << " " << code;
      if (std::isfinite(expected)) {
        EXPECT_EQ(back.bytes()[code], codes.bytes()[code]) << dtype << " " << code;
      }
    }
  }
}

/// Between neighbours: the tie and what is beside it. Then what is beyond the largest number.
template <class Float>
std::vector<Float> probes(Dtype dtype) {
  std::vector<Float> x;
  const std::vector<double> numbers = positive_numbers(dtype);
  constexpr auto kInfinity = std::numeric_limits<Float>::infinity();
  const auto add = [&](double value) {
    const auto at = static_cast<Float>(value);
    for (const Float each : {std::nextafter(at, Float{0}), at, std::nextafter(at, kInfinity)})
      x.push_back(each), x.push_back(-each);
  };
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) add(numbers[i]), add((numbers[i] + numbers[i + 1]) / 2);
  for (const double beyond : {1.0, 1.03, 1.0625, 1.125, 1.5, 2.0}) add(beyond * numbers.back());
  for (const double value : {0.0, 1e-30, 1e30, 1e-40}) add(value);
  for (const Float value : {kInfinity, -kInfinity, std::numeric_limits<Float>::quiet_NaN()}) x.push_back(value);
  return x;
}

/// The nearest number, of two as near the one of even code; the largest number beyond it.
double searched(double x, const std::vector<double>& numbers) {
  if (std::isnan(x)) return x;
  std::size_t best = 0;
  for (std::size_t code = 1; code < numbers.size(); ++code) {
    const double closer = std::abs(std::abs(x) - numbers[best]) - std::abs(std::abs(x) - numbers[code]);
    if (closer > 0 || (closer == 0 && code % 2 == 0)) best = code;
  }
  return std::copysign(std::abs(x) > numbers.back() ? numbers.back() : numbers[best], x);
}

template <class Float>
void expect_rounded(Dtype dtype) {
  const std::vector<Float> x = probes<Float>(dtype);
  const std::vector<double> numbers = positive_numbers(dtype);
  const Array array = Array::from(x, {std::ssize(x)});
  const Variable variable("v", Array(dtype, array.shape()));
  variable.set(array);
  const struct {
    const char* way;
    std::vector<double> values;
  } ways[] = {
      {"Array::to", array.to(dtype).to_vector<double>()},
      {"a stored cast", evaluate(cast(array, dtype), cpu()).to_vector<double>()},
      {"a fused cast", testing::values_of(cast(cast(array, dtype), Dtype::f64) * 1.0)},
      {"a Variable", variable.array().to_vector<double>()},
      {"its format", testing::values_of(quantized(array, format_named(dtype == Dtype::f8e4m3 ? "e4m3" : "e5m2")))}};
  for (const auto& [way, values] : ways)
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(same(values[i], searched(x[i], numbers)))
          << dtype << " by " << way << ": " << x[i] << " gives " << values[i];
}

TEST(Float8, EveryTieRoundsToEven) {
  for (const Dtype dtype : kTypes) expect_rounded<float>(dtype), expect_rounded<double>(dtype);
}

TEST(Float8, OtherTypesAreRoundedOnce) {
  for (const Dtype dtype : kTypes) {
    const double most = positive_numbers(dtype).back();
    const Tensor whole = Array::from(std::vector<std::int64_t>{17, -19, 1'000'000'000'000, 0}, {4});
    const bool fine = dtype == Dtype::f8e4m3;
    expect_values(cast(whole, dtype), {16, -20, most, 0}, 0);
    expect_values(cast(cast(whole, Dtype::i32), dtype), {16, -20, most, 0}, 0);
    expect_values(cast(cast(full({1}, 1.0625), Dtype::f16), dtype), {1}, 0);
    expect_values(full({1}, 2.7, dtype), {fine ? 2.75 : 2.5}, 0);
    expect_values(cast(full({2}, 2.7, dtype), Dtype::i32), {2, 2}, 0);
    expect_values(cast(full({1}, 0.1, dtype), Dtype::boolean), {1}, 0);
  }
}

struct OpRow {
  const char* name;
  bool keeps_type;
  std::function<Tensor(const Tensor& x)> op;
};

// Arithmetic is that on the f32 numbers; what only moves elements keeps the type.
TEST(Float8, EveryOpWorksOnTheNumbers) {
  const Tensor indices = Array::from(std::vector<std::int32_t>{2, 0}, {2});
  const Tensor mask = Array::from(std::vector<float>{1, 0, 1, 0}, {4}).to(Dtype::boolean);
  const OpRow rows[] = {
      {"add", false, [](const Tensor& x) { return x + x; }},
      {"a number", false, [](const Tensor& x) { return x * 3; }},
      {"beside integers", false, [](const Tensor& x) { return x * ones({4}, Dtype::i32); }},
      {"exp", false, [](const Tensor& x) { return exp(x); }},
      {"relu", false, [](const Tensor& x) { return relu(x); }},
      {"maximum", false, [](const Tensor& x) { return maximum(x, 1); }},
      {"sum", false, [](const Tensor& x) { return sum(x, {0}); }},
      {"max", false, [](const Tensor& x) { return max(x, {1}); }},
      {"mean", false, [](const Tensor& x) { return mean(x); }},
      {"variance", false, [](const Tensor& x) { return variance(x, {1}); }},
      {"norm", false, [](const Tensor& x) { return norm(x, {1}); }},
      {"softmax", false, [](const Tensor& x) { return softmax(x, {1}); }},
      {"standardize", false, [](const Tensor& x) { return standardize(x, {1}, 1e-5); }},
      {"cumsum", false, [](const Tensor& x) { return cumsum(x, 1); }},
      {"cumprod", false, [](const Tensor& x) { return cumprod(x, 1); }},
      {"max_pool", false,
       [](const Tensor& x) {
         return max_pool(reshape(x, {1, 1, 3, 4}), {.window = {2, 2}});
       }},
      {"average_pool", false,
       [](const Tensor& x) {
         return average_pool(reshape(x, {1, 1, 3, 4}), {.window = {2, 2}});
       }},
      {"resize", false,
       [](const Tensor& x) {
         return resize(reshape(x, {1, 1, 3, 4}), {5, 9}, {.mode = ResizeMode::linear});
       }},
      {"conv", false,
       [](const Tensor& x) {
         return conv(reshape(x, {1, 1, 3, 4}), reshape(x, {3, 1, 2, 2}), {});
       }},
      {"matmul", false, [](const Tensor& x) { return matmul(x, x, {.trans_b = true}); }},
      {"matmul with f32", false,
       [](const Tensor& x) {
         return matmul(x, ones({4, 2}));
       }},
      {"einsum", false,
       [](const Tensor& x) {
         return einsum("ij,kj->ik", {x, x});
       }},
      {"scatter_add", false,
       [&](const Tensor& x) {
         return scatter_add({3, 4}, indices, slice(x, {Index::all(), Index::range(0, 2)}), 1);
       }},
      {"quantized", false, [](const Tensor& x) { return quantized(x, format_named("e2m1")); }},
      {"tril", false, [](const Tensor& x) { return tril(x, 0); }},
      {"transpose", true, [](const Tensor& x) { return transpose(x, 0, 1); }},
      {"slice", true, [](const Tensor& x) { return slice(x, {Index::range(0, 3, 2)}); }},
      {"flip", true, [](const Tensor& x) { return flip(x, {1}); }},
      {"pad", true,
       [](const Tensor& x) {
         return pad(x, {1, 0}, {0, 2}, -3);
       }},
      {"concat", true,
       [](const Tensor& x) {
         return concat({x, x}, 1);
       }},
      {"broadcast", true,
       [](const Tensor& x) {
         return broadcast_to(x, {2, 3, 4});
       }},
      {"take", true, [&](const Tensor& x) { return take(x, indices, 0); }},
      {"sort", true, [](const Tensor& x) { return sort(x, 1); }},
      {"topk", true, [](const Tensor& x) { return topk(x, 2, 1).values; }},
      {"where", true, [&](const Tensor& x) { return where(mask, x, flip(x, {0})); }},
      {"update", true, [](const Tensor& x) { return update(x, {Index::range(1, 2)}, 0.5); }},
      {"scatter", true, [&](const Tensor& x) { return scatter(x, indices, slice(x, {Index::range(0, 2)}), 0); }},
      {"scatter_max", true,
       [&](const Tensor& x) { return scatter_max(x, indices, slice(x, {Index::range(0, 2)}), 0); }},
      {"nearest", true,
       [](const Tensor& x) {
         return resize(reshape(x, {1, 1, 3, 4}), {5, 9}, {.mode = ResizeMode::nearest});
       }},
  };
  const Array numbers = testing::random_array({3, 4}, -4, 4, 5);
  for (const Dtype dtype : kTypes)
    for (const auto& [name, keeps_type, op] : rows) {
      SCOPED_TRACE(fmt::format("{} of {}", name, dtype));
      const Array x = numbers.to(dtype);
      const Tensor y = op(x);
      EXPECT_EQ(y.dtype(), keeps_type ? dtype : Dtype::f32);
      expect_values(y, testing::values_of(op(Tensor(x.to(Dtype::f32)))), 0);
    }
}

TEST(Float8, PositionsAndConditions) {
  const Tensor x = Array::from(std::vector<float>{3, -1, 3, 0}, {4}).to(Dtype::f8e4m3);
  expect_values(argmax(x), {0}, 0);
  expect_values(argsort(x, 0), {1, 3, 0, 2}, 0);
  expect_values(x > 0, {1, 0, 1, 0}, 0);
  expect_values(any(x), {1}, 0);
  expect_values(count_nonzero(x), {3}, 0);
  expect_values(where(x, 1, 2), {1, 1, 1, 2}, 0);
}

// Sums of 8-bit products that fit 24 bits are exact; halves would not hold them.
TEST(Float8, ProductsSumInFloat) {
  for (const Dtype left : kTypes)
    for (const Dtype right : kTypes) {
      const Tensor a = full({5, 64}, 448.0, left), b = full({64, 7}, -320.0, right);
      const double each = testing::values_of(a)[0] * testing::values_of(b)[0];
      const Tensor y = matmul(a, b);
      EXPECT_EQ(y.dtype(), Dtype::f32);
      expect_values(y, std::vector<double>(35, 64 * each), 0);
      for (const PrecisionPolicy policy : {PrecisionPolicy::fp16, PrecisionPolicy::bf16, PrecisionPolicy::ieee}) {
        Step step(
            cpu(),
            [&](const Inputs&) {
              return Outputs{{"y", sum(relu(-matmul(a, b) * 0x1p-20))}};
            },
            policy);
        EXPECT_NEAR(step({}).at("y").array().item(), -35 * 64 * each * 0x1p-20, 1e-3 * 320) << to_string(policy);
      }
    }
}

TEST(Float8, GradientsAreF32) {
  const Tensor x = Array::from(std::vector<float>{1.06F, 500, -3.3F}, {3});
  const Tensor stored = cast(x, Dtype::f8e4m3), loss = sum(square(stored) + stored * 1e-3);
  const std::vector<Tensor> found = gradients(loss, {stored, x});
  EXPECT_EQ(found[0].dtype(), Dtype::f32);
  EXPECT_EQ(found[1].dtype(), Dtype::f32);
  for (const Tensor& gradient : found) expect_values(gradient, {2.001, 896.001, -6.499}, 1e-6);
  const Tensor w = evaluate(cast(full({3, 2}, 0.5), Dtype::f8e5m2), cpu());
  const std::vector<Tensor> of_product = gradients(sum(matmul(reshape(stored, {1, 3}), w)), {w, x});
  expect_values(of_product[0], {1, 1, 448, 448, -3.25, -3.25}, 0);
  expect_values(of_product[1], {1, 1, 1}, 0);
}

TEST(Float8, RefusalsAreOneLine) {
  EXPECT_FAULT(usage, "expected f64, f32, f16 or bf16", linspace(0, 1, 5, Dtype::f8e4m3));
  EXPECT_FAULT(usage, "the values are f8e5m2, expected a floating type of 16 bits or more",
               all_reduce(World(), zeros({2}, Dtype::f8e5m2)));
}

}  // namespace
}  // namespace nixie
