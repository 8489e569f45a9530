// Element types: promotion, conversion, saturation and weak numbers.
#include <sstream>

#include "nixie/core/ops/elementwise.h"

#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

TEST(Types, PromotionTable) {
  // In Dtype's order; of integers numpy's.
  const char* table[kDtypeCount] = {"f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64",
                                    "f64  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32",
                                    "f64  f32  f16  f32  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16",
                                    "f64  f32  f32  bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16",
                                    "f64  f32  f16  bf16 f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32",
                                    "f64  f32  f16  bf16 f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32",
                                    "f64  f32  f16  bf16 f32  f32  i64  i64  i64  i64  f64  i64  i64  i64  i64",
                                    "f64  f32  f16  bf16 f32  f32  i64  i32  i32  i32  f64  i64  i32  i32  i32",
                                    "f64  f32  f16  bf16 f32  f32  i64  i32  i16  i16  f64  i64  i32  i16  i16",
                                    "f64  f32  f16  bf16 f32  f32  i64  i32  i16  i8   f64  i64  i32  i16  i8",
                                    "f64  f32  f16  bf16 f32  f32  f64  f64  f64  f64  u64  u64  u64  u64  u64",
                                    "f64  f32  f16  bf16 f32  f32  i64  i64  i64  i64  u64  u32  u32  u32  u32",
                                    "f64  f32  f16  bf16 f32  f32  i64  i32  i32  i32  u64  u32  u16  u16  u16",
                                    "f64  f32  f16  bf16 f32  f32  i64  i32  i16  i16  u64  u32  u16  u8   u8",
                                    "f64  f32  f16  bf16 f32  f32  i64  i32  i16  i8   u64  u32  u16  u8   bool"};
  for (int i = 0; i < kDtypeCount; ++i) {
    std::istringstream row(table[i]);
    for (int j = 0; j < kDtypeCount; ++j) {
      const auto a = static_cast<Dtype>(i), b = static_cast<Dtype>(j);
      std::string expected;
      row >> expected;
      EXPECT_EQ(to_string(promote(a, b)), expected) << a << " with " << b;
      EXPECT_EQ((zeros({2}, a) + zeros({2}, b)).dtype(), promote(a, b));
    }
  }
}

TEST(Types, NumbersAreWeak) {
  const Tensor integers = zeros({2}, Dtype::u8), halves = zeros({2}, Dtype::f16);
  EXPECT_EQ((integers + 1).dtype(), Dtype::u8);
  EXPECT_EQ((integers + 0.5).dtype(), Dtype::f32);
  EXPECT_EQ((halves * 0.5).dtype(), Dtype::f16);
  EXPECT_EQ((zeros({2}, Dtype::f64) * 2).dtype(), Dtype::f64);
  EXPECT_EQ((integers / 2).dtype(), Dtype::f32);
  EXPECT_EQ((integers < 2).dtype(), Dtype::boolean);
  EXPECT_EQ(exp(integers).dtype(), Dtype::f32);
  EXPECT_EQ(sum(integers).dtype(), Dtype::u64);
  EXPECT_EQ(mean(integers).dtype(), Dtype::f32);
}

// numpy's arithmetic modulo 256; recorded from numpy 2.4.
TEST(Types, NarrowIntegersWrapWhetherFusedOrStored) {
  const Tensor x = Array::from(std::vector<std::uint8_t>{250, 3, 0}, {3});
  const Tensor y = Array::from(std::vector<std::int8_t>{127, -128, 3}, {3});
  expect_values(x + 10, {4, 13, 10}, 0);
  expect_values((x + 10) / 2.0, {2, 6.5, 5}, 0);  // in one kernel
  expect_values(x * x, {36, 9, 0}, 0);
  expect_values(evaluate(x * x, cpu()) + 0.0, {36, 9, 0}, 0);
  expect_values(x - 5, {245, 254, 251}, 0);
  expect_values(-x, {6, 253, 0}, 0);
  expect_values(~x, {5, 252, 255}, 0);
  expect_values(y + y, {-2, 0, 6}, 0);
  expect_values(y * 3, {125, -128, 9}, 0);
  expect_values(-y, {-127, -128, -3}, 0);
  EXPECT_EQ((x * x).dtype(), Dtype::u8);
}

// Integers are whole already; through floats those beyond 2^24 would be others.
TEST(Types, RoundingAndTrianglesKeepTheType) {
  const Tensor x = Array::from(std::vector<std::int64_t>{(std::int64_t{1} << 53) + 1, -3}, {2});
  for (const Tensor& y : {floor(x), ceil(x), round(x), trunc(x)}) {
    EXPECT_EQ(y.dtype(), Dtype::i64);
    EXPECT_EQ(evaluate(y, cpu()).to_vector<std::int64_t>(), x.to_vector<std::int64_t>());
  }
  const Tensor all = full({2, 2}, true, Dtype::boolean);
  EXPECT_EQ(tril(all).dtype(), Dtype::boolean);
  EXPECT_EQ(triu(all).dtype(), Dtype::boolean);
  expect_values(tril(all), {1, 0, 1, 1}, 0);
}

TEST(Types, ProductsOfNarrowIntegersAreWide) {
  const Tensor row = full({1, 4}, 200, Dtype::u8), column = full({4, 1}, 200, Dtype::u8);
  EXPECT_EQ(matmul(row, column).dtype(), Dtype::i32);
  expect_values(matmul(row, column), {160000}, 0);
  expect_values(conv(full({1, 1, 3, 3}, 200, Dtype::u8), full({1, 1, 3, 3}, 2, Dtype::u8)), {3600}, 0);
  expect_values(average_pool(full({1, 1, 2, 2}, 255, Dtype::u8), {}), {255}, 0);
  expect_values(norm(full({4}, 100, Dtype::u8)), {200}, 0);
}

// In f16 the first product would be infinite, in u8 it would wrap.
TEST(Types, EinsumsTypeIsThatOfAllOperands) {
  const Tensor halves = full({2}, 300, Dtype::f16), bytes = full({2}, 200, Dtype::u8);
  expect_values(einsum("i,i,i->i", {halves, halves, full({2}, 2, Dtype::f32)}), {180000, 180000}, 0);
  expect_values(einsum("i,i->i", {bytes, bytes}), {40000, 40000}, 0);
  for (const char* subscripts : {"i,i->i", "i,i->", "i,j->ij", "i,i,i"}) {
    std::vector<Tensor> operands(std::string(subscripts) == "i,i,i" ? 3 : 2, bytes);
    EXPECT_EQ(einsum(subscripts, operands).dtype(), Dtype::i32) << subscripts;
    operands.back() = halves;
    EXPECT_EQ(einsum(subscripts, operands).dtype(), Dtype::f16) << subscripts;
    operands.front() = full({2}, 1, Dtype::f32);
    EXPECT_EQ(einsum(subscripts, operands).dtype(), Dtype::f32) << subscripts;
  }
  for (const char* subscripts : {"ij->ji", "ij->i", "ii"})
    EXPECT_EQ(einsum(subscripts, {zeros({2, 2}, Dtype::u8)}).dtype(), Dtype::i32) << subscripts;
}

TEST(Types, CastsSaturateWhetherFusedOrStored) {
  const Tensor f = Array::from(std::vector<float>{-300, -1.7f, 2.7f, 1e20f, NAN}, {5});
  expect_values(cast(f, Dtype::i8), {-128, -1, 2, 127, 0}, 0);
  expect_values(cast(f, Dtype::u8), {0, 0, 2, 255, 0}, 0);
  expect_values(cast(f, Dtype::i32), {-300, -1, 2, 2147483647.0, 0}, 0);
}

TEST(Types, HalvesRoundToNearestEvenOverAllBits) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = static_cast<float>(half);
    if (value != value) continue;
    ASSERT_EQ(Half(value).bits, half.bits);
    Bfloat16 brain;
    brain.bits = static_cast<std::uint16_t>(bits);
    const float wide = static_cast<float>(brain);
    if (wide == wide) {
      ASSERT_EQ(Bfloat16(wide).bits, brain.bits);
    }
    // Half way to the next half: the even one wins.
    Half next = half;
    ++next.bits;
    const float above = static_cast<float>(next);
    if (!std::isfinite(above) || !std::isfinite(value) || (bits & 0x7fff) == 0x7fff) continue;
    const float middle = static_cast<float>((static_cast<double>(value) + above) / 2);
    ASSERT_EQ(Half(middle).bits & 1u, 0u) << bits;
  }
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(65519.0f).bits, 0x7bff);
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(NAN))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Bfloat16(NAN))));
}

TEST(Types, HalvesComputeInFloat) {
  const Array x = Array::from(std::vector<double>{1, 2049, 0.1}, {3}).to(Dtype::f32);
  const Tensor half = cast(x, Dtype::f16);
  expect_values(evaluate(half, cpu()), {1, 2048, static_cast<double>(static_cast<float>(Half(0.1f)))}, 0);
  EXPECT_EQ((half * half).dtype(), Dtype::f16);
}

TEST(Types, ACastToHalvesRoundsWhetherFusedOrStored) {
  const float third = 1.0f / 3, large = 3.0e38f;
  const Tensor x = Array::from(std::vector<float>{third, 2049, 65520, -1e-8f, large, NAN}, {6});
  for (const Dtype half : {Dtype::f16, Dtype::bf16}) {
    const auto exact = [&](float value) {
      return half == Dtype::f16 ? static_cast<double>(static_cast<float>(Half(value)))
                                : static_cast<double>(static_cast<float>(Bfloat16(value)));
    };
    const std::vector<double> expected{exact(third), exact(2049), exact(65520), exact(-1e-8f), exact(large), NAN};
    expect_values(cast(cast(x, half), Dtype::f32) + 0.0, expected, 0);
    expect_values(evaluate(cast(x, half), cpu()), expected, 0);
    const std::vector<Tensor> both = evaluate({cast(x, half), cast(cast(x, half), Dtype::f32)}, cpu());
    expect_values(both[0], expected, 0);
    expect_values(both[1], expected, 0);
    expect_values(sum(cast(full({3}, third), half), {0}), {3 * exact(third)}, 0);
    expect_values(cast(cast(Tensor(0.1), half), Dtype::f64), {exact(0.1f)}, 0);
  }
}

TEST(Types, ElementwiseOpsOfManyInputs) {
  const Elementwise blend{"blend_for_test", [](auto a, auto b, auto c, auto d, auto e) { return a * b + c * d + e; },
                          [](const Tensor& g, const Tensor&, const Tensor& a, const Tensor& b, const Tensor& c,
                             const Tensor& d, const Tensor&) {
                            return Gradients{g * b, g * a, g * d, g * c, g};
                          }};
  std::vector<Array> x;
  for (unsigned i = 0; i < 5; ++i) x.push_back(testing::random_array({2, 3}, -2, 2, i));
  testing::expect_gradients([&](const std::vector<Tensor>& v) { return blend(v[0], v[1], v[2], v[3], v[4]); }, x);
  expect_values(blend(2.0, 3.0, 4.0, 5.0, 6.0), {32}, 0);
  EXPECT_FAULT(usage, "blend_for_test: 2 inputs, expected 5", blend(1.0, 2.0));
}

TEST(Types, WhereAndCastHaveGradients) {
  const Array x = testing::random_array({6}, -2, 2, 5), y = testing::random_array({6}, -2, 2, 6);
  testing::expect_gradients([](const std::vector<Tensor>& v) { return where(v[0] > 0, v[0] * v[1], square(v[1])); },
                            {x, y});
  const Tensor single = Tensor(x.to(Dtype::f32));
  const auto g = gradients(sum(cast(square(single), Dtype::f64)), std::vector<Tensor>{single});
  EXPECT_EQ(g[0].dtype(), Dtype::f32);
}

template <class T>
concept TruthValue = requires(const T& x) {
  x ? 1 : 0;
};

// Once more what the compiler got wrong: see -mmove-max in CMakeLists.txt.
TEST(Types, ListsOfNumbersAreWhatTheySay) {
  const auto text = [](const auto& values) { return fmt::format("{}", fmt::join(values, " ")); };
  EXPECT_EQ(text(std::vector<double>{1, 1, 0, 0}), "1 1 0 0");
  EXPECT_EQ(text(std::vector<std::int64_t>{7, 7, 0, 0}), "7 7 0 0");
  EXPECT_EQ(text(std::vector<int>{3, 3, 3, 3, 0, 0, 0, 0}), "3 3 3 3 0 0 0 0");
}

std::vector<std::int64_t> whole(const Tensor& x) { return evaluate(x, cpu()).to_vector<std::int64_t>(); }

// Beyond 2^53, where a double would round. Values are Python's, wrapped to 64 bits.
TEST(Types, WideIntegersAreExact) {
  using V = std::vector<std::int64_t>;
  constexpr std::int64_t kBig = (std::int64_t{1} << 62) + 1, kMost = std::numeric_limits<std::int64_t>::max();
  const Tensor x = Array::from(V{kBig, -kBig, kBig + 1, 7}, {4}), three = Array::from(V{3, 3, 3, -3}, {4});
  EXPECT_EQ(whole(x + 1), (V{kBig + 1, 1 - kBig, kBig + 2, 8}));
  EXPECT_EQ(whole(x + x), (V{-kMost - 1 + 2, kMost - 1, -kMost - 1 + 4, 14}));
  EXPECT_EQ(whole(x * three), (V{-4611686018427387901, 4611686018427387901, -4611686018427387898, -21}));
  EXPECT_EQ(whole(floor_divide(x, three)), (V{1537228672809129301, -1537228672809129302, 1537228672809129302, -3}));
  EXPECT_EQ(whole(x % three), (V{2, 1, 0, -2}));
  EXPECT_EQ(whole(abs(-x)), (V{kBig, kBig, kBig + 1, 7}));
  EXPECT_EQ(whole(x < kBig / 2), (V{0, 1, 0, 1}));
  EXPECT_EQ(whole(slice(x, {Index(0)}) == slice(x, {Index(2)})), (V{0}));
  EXPECT_EQ(whole(maximum(x, three)), (V{kBig, 3, kBig + 1, 7}));
  EXPECT_EQ(whole(where(x > 0, x, three)), (V{kBig, 3, kBig + 1, 7}));
  EXPECT_EQ(whole(x >> 60), (V{4, -5, 4, 0}));
  EXPECT_EQ(whole((x & 3) << 40), (V{1099511627776, 3298534883328, 2199023255552, 3298534883328}));
  EXPECT_EQ(whole(x ^ -1), whole(~x));
  EXPECT_EQ(whole(sum(x)), (V{kBig + 8}));
  EXPECT_EQ(whole(prod(slice(x, {Index::range(2, 4)}))), (V{-4611686018427387890}));
  EXPECT_EQ(whole(max(x)), (V{kBig + 1}));
  EXPECT_EQ(whole(min(x)), (V{-kBig}));
  EXPECT_EQ(whole(argmax(x)), (V{2}));
  EXPECT_EQ(whole(argmin(x)), (V{1}));
  EXPECT_EQ(whole(cumsum(x, 0)), (V{kBig, 0, kBig + 1, kBig + 8}));
  EXPECT_EQ(whole(sort(x, 0)), (V{-kBig, 7, kBig, kBig + 1}));
  EXPECT_EQ(whole(take(x, Array::from(V{3, -2, 0}, {3}), 0)), (V{7, kBig + 1, kBig}));
  EXPECT_EQ(whole(scatter_add({3}, Array::from(V{2, 0, 2, 0}, {4}), x)), (V{7 - kBig, 0, -kMost - 1 + 3}));
  EXPECT_EQ(whole(max(zeros({0}, Dtype::i64))), (V{-kMost - 1}));
  for (const Tensor& y : {x + 1, sum(x), max(x), cumsum(x, 0), sort(x, 0), prod(x), where(x > 0, x, 0)})
    EXPECT_EQ(y.dtype(), Dtype::i64);
  EXPECT_EQ(argmax(x).dtype(), Dtype::i32);
  EXPECT_EQ((x / 2).dtype(), Dtype::f32);
}

// Sums over many tiles and threads.
TEST(Types, LongSumsOfWideIntegersAreExact) {
  const std::int64_t n = 300000, big = (std::int64_t{1} << 43) + 1;
  const Tensor x = full({3, n}, 1, Dtype::i64) * big;
  EXPECT_EQ(whole(sum(x, {1}, false)), std::vector<std::int64_t>(3, n * big));
  EXPECT_EQ(whole(sum(x)), std::vector<std::int64_t>{3 * n * big});
  const Tensor last = where(coordinate({n}, 0) == n - 5, big + 1, full({n}, 1, Dtype::i64) * big);
  EXPECT_EQ(whole(argmax(last)), std::vector<std::int64_t>{n - 5});
  EXPECT_EQ(whole(max(last)), std::vector<std::int64_t>{big + 1});
}

TEST(Types, CastsOfWideIntegersSaturate) {
  using V = std::vector<std::int64_t>;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Tensor d = Array::from(std::vector<double>{-1e30, -2.7, 2.7, 1e30, NAN, 4503599627370497}, {6});
  EXPECT_EQ(whole(cast(d, Dtype::i64)), (V{-kMost - 1, -2, 2, kMost, 0, 4503599627370497}));
  EXPECT_EQ(whole(cast(cast(d, Dtype::f32), Dtype::i64)), (V{-kMost - 1, -2, 2, kMost, 0, 4503599627370496}));
  const Tensor w = Array::from(V{-kMost, -3, 300, kMost, 2147483648}, {5});
  expect_values(cast(w, Dtype::i32), {-2147483648.0, -3, 300, 2147483647, 2147483647}, 0);
  expect_values(cast(w, Dtype::u8), {0, 0, 255, 255, 255}, 0);
  expect_values(cast(w, Dtype::boolean), {1, 1, 1, 1, 1}, 0);
  EXPECT_EQ(Array::from(std::vector<double>{1e30, NAN, 2.5, -3.5}, {4}).to(Dtype::i64).to_vector<std::int64_t>(),
            (V{kMost, 0, 2, -3}));
  EXPECT_EQ(whole(evaluate(w, cpu()).array().to(Dtype::i32)), (V{-2147483648, -3, 300, 2147483647, 2147483647}));
}

TEST(Types, ProductsOfWideIntegersAreRefused) {
  for (const Dtype dtype : {Dtype::i64, Dtype::u64, Dtype::u32}) {
    const Tensor x = zeros({2, 2}, dtype);
    const std::string computed(to_string(compute_dtype(dtype)));
    EXPECT_FAULT(usage, "convolutions are not computed in " + computed + "; cast to i32 or f64", matmul(x, x));
    EXPECT_FAULT(usage, "pooling is not computed in " + computed, max_pool(reshape(x, {1, 1, 2, 2}), {}));
  }
}

// Values are numpy's; where numpy refuses (the difference of bools), they are those of the numbers 0 and 1.
TEST(Types, BoolsAreTruthValues) {
  const Tensor a = Array::from(std::vector<bool>{false, false, true, true}, {4});
  const Tensor b = Array::from(std::vector<bool>{false, true, false, true}, {4});
  const struct {
    Tensor value;
    std::vector<double> expected;
    Dtype dtype;
  } rows[] = {
      {a & b, {0, 0, 0, 1}, Dtype::boolean},
      {a | b, {0, 1, 1, 1}, Dtype::boolean},
      {a ^ b, {0, 1, 1, 0}, Dtype::boolean},
      {~a, {1, 1, 0, 0}, Dtype::boolean},
      {!a, {1, 1, 0, 0}, Dtype::boolean},
      {a + b, {0, 1, 1, 1}, Dtype::boolean},
      {a * b, {0, 0, 0, 1}, Dtype::boolean},
      {a == b, {1, 0, 0, 1}, Dtype::boolean},
      {a < b, {0, 1, 0, 0}, Dtype::boolean},
      {maximum(a, b), {0, 1, 1, 1}, Dtype::boolean},
      {a + 1, {1, 1, 2, 2}, Dtype::i32},
      {1 - a, {1, 1, 0, 0}, Dtype::i32},
      {a * 0.5, {0, 0, 0.5, 0.5}, Dtype::f32},
      {a / b, {NAN, 0, INFINITY, 1}, Dtype::f32},
      {where(a, b, false), {0, 0, 0, 1}, Dtype::boolean},
      {where(a, 2.0, 3.0), {3, 3, 2, 2}, Dtype::f32},
      {sum(a), {2}, Dtype::i64},
      {prod(a), {0}, Dtype::i64},
      {mean(a), {0.5}, Dtype::f32},
      {cumsum(a, 0), {0, 0, 1, 2}, Dtype::i64},
      {max(a), {1}, Dtype::boolean},
      {min(a), {0}, Dtype::boolean},
      {any(a), {1}, Dtype::boolean},
      {all(a), {0}, Dtype::boolean},
      {any(zeros({0})), {0}, Dtype::boolean},
      {all(zeros({0})), {1}, Dtype::boolean},
      {argmax(a), {2}, Dtype::i32},
      {sort(a, 0, true), {1, 1, 0, 0}, Dtype::boolean},
      {take(a, Array::from(std::vector<std::int32_t>{3, 0}, {2})), {1, 0}, Dtype::boolean},
      {update(a, {Index(0)}, true), {1, 0, 1, 1}, Dtype::boolean},
      {exp(a), {1, 1, std::exp(1.0), std::exp(1.0)}, Dtype::f32},
      {matmul(reshape(a, {2, 2}), reshape(a, {2, 2})), {0, 0, 1, 1}, Dtype::i32},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(row.value.dtype(), row.dtype) << &row - rows;
    SCOPED_TRACE(&row - rows);
    expect_values(row.value, row.expected, 1e-6);
  }
}

TEST(Types, WhatIsNotZeroIsTrueWhetherFusedOrStored) {
  const std::vector<double> values{0, -0.0, 0.25, -3, NAN, INFINITY}, expected{0, 0, 1, 1, 1, 1};
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
    const Array x = Array::from(values, {6}).to(dtype);
    expect_values(cast(x, Dtype::boolean), expected, 0);
    expect_values(cast(Tensor(x) * 1, Dtype::boolean) + 0, expected, 0);
    EXPECT_EQ(x.to(Dtype::boolean).to_vector<double>(), expected);
  }
  expect_values(full({2}, 0.5, Dtype::boolean), {1, 1}, 0);
}

TEST(Types, LogicalOperatorsAreElementwise) {
  static_assert(!TruthValue<Tensor>);  // else a && b would ask whether the handles are set
  const Tensor a = Array::from(std::vector<float>{0, 2, 0, 3}, {4}),
               b = Array::from(std::vector<float>{0, 1, 4, 0}, {4});
  expect_values(a && b, {0, 1, 0, 0}, 0);
  expect_values(a || b, {0, 1, 1, 1}, 0);
  expect_values(!a, {1, 0, 1, 0}, 0);
  expect_values(!(a > 2) && b == 0, {1, 0, 0, 0}, 0);
  EXPECT_EQ((a && b).dtype(), Dtype::boolean);
}

TEST(Types, WrongTypesAreNamed) {
  EXPECT_FAULT(usage, "bit_and: input is f32, expected an integer type", zeros({2}) & zeros({2}));
  EXPECT_FAULT(usage, "take: indices are f32, expected an integer type", take(zeros({3}), zeros({2})));
  EXPECT_FAULT(
      usage,
      "dtype \"f8\" is unknown, expected one of f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, u64, u32, "
      "u16, u8, bool",
      dtype_named("f8"));
}

}  // namespace
}  // namespace nixie
