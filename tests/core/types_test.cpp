// Element types: promotion, conversion, saturation and weak numbers.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

using testing::cpu;
using testing::expect_values;

TEST(Types, PromotionTable) {
  const Dtype all[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u8, Dtype::i8};
  const char* table[7][7] = {
      {"f64", "f64", "f64", "f64", "f64", "f64", "f64"},  {"f64", "f32", "f32", "f32", "f32", "f32", "f32"},
      {"f64", "f32", "f16", "f32", "f16", "f16", "f16"},  {"f64", "f32", "f32", "bf16", "bf16", "bf16", "bf16"},
      {"f64", "f32", "f16", "bf16", "i32", "i32", "i32"}, {"f64", "f32", "f16", "bf16", "i32", "u8", "i32"},
      {"f64", "f32", "f16", "bf16", "i32", "i32", "i8"}};
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 7; ++j) {
      EXPECT_EQ(to_string(promote(all[i], all[j])), table[i][j]);
      EXPECT_EQ((zeros({2}, all[i]) + zeros({2}, all[j])).dtype(), promote(all[i], all[j]));
    }
}

TEST(Types, NumbersAreWeak) {
  const Tensor integers = zeros({2}, Dtype::u8), halves = zeros({2}, Dtype::f16);
  EXPECT_EQ((integers + 1).dtype(), Dtype::u8);
  EXPECT_EQ((integers + 0.5).dtype(), Dtype::f32);
  EXPECT_EQ((halves * 0.5).dtype(), Dtype::f16);
  EXPECT_EQ((zeros({2}, Dtype::f64) * 2).dtype(), Dtype::f64);
  EXPECT_EQ((integers / 2).dtype(), Dtype::f32);
  EXPECT_EQ((integers < 2).dtype(), Dtype::u8);
  EXPECT_EQ(exp(integers).dtype(), Dtype::f32);
  EXPECT_EQ(sum(integers).dtype(), Dtype::i32);
  EXPECT_EQ(mean(integers).dtype(), Dtype::f32);
}

TEST(Types, IntegersSaturateWhetherFusedOrStored) {
  const Tensor x = Array::from(std::vector<std::uint8_t>{250, 3, 0}, {3});
  expect_values(x + 10, {255, 13, 10}, 0);
  expect_values((x + 10) - 10, {245, 3, 0}, 0);  // 255 - 10, in one kernel
  expect_values(x - 5, {245, 0, 0}, 0);
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

TEST(Types, LogicalOperatorsAreElementwise) {
  static_assert(!TruthValue<Tensor>);  // else a && b would ask whether the handles are set
  const Tensor a = Array::from(std::vector<float>{0, 2, 0, 3}, {4}),
               b = Array::from(std::vector<float>{0, 1, 4, 0}, {4});
  expect_values(a && b, {0, 1, 0, 0}, 0);
  expect_values(a || b, {0, 1, 1, 1}, 0);
  expect_values(!a, {1, 0, 1, 0}, 0);
  expect_values(!(a > 2) && b == 0, {1, 0, 0, 0}, 0);
  EXPECT_EQ((a && b).dtype(), Dtype::u8);
}

TEST(Types, WrongTypesAreNamed) {
  testing::expect_error([] { zeros({2}) & zeros({2}); }, "bit_and: input is f32, expected an integer type");
  testing::expect_error([] { take(zeros({3}), zeros({2})); }, "take: indices are f32, expected an integer type");
  testing::expect_error([] { dtype_named("f8"); }, "dtype \"f8\" is unknown");
}

}  // namespace
}  // namespace nixie
