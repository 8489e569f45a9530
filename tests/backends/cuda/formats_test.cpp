// Rounding to number formats: the GPU's bits against the CPU's. Skipped where there is no GPU.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <bit>
#include <span>

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/ops/formats.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/tests/backends/cuda/device.h"

namespace nixie {
namespace {

constexpr Rounding kRoundings[] = {Rounding::nearest, Rounding::toward_zero, Rounding::stochastic};

Array floats_of(std::uint32_t first, std::uint32_t step, std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& each : x) each = std::bit_cast<float>(first), first += step;
  return Array::from(x, {count});
}

/// How many results differ in their bits; NaN is NaN.
std::int64_t differences(const Tensor& x, Backend& cpu, Backend& cuda) {
  const std::vector<float> expected = evaluate(x, cpu).to_vector<float>(), found = evaluate(x, cuda).to_vector<float>();
  std::int64_t count = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    count += std::bit_cast<std::uint32_t>(expected[i]) != std::bit_cast<std::uint32_t>(found[i]) &&
             !(expected[i] != expected[i] && found[i] != found[i]);
  return count;
}

void compare(Backend& cpu, Backend& cuda, std::uint32_t first, std::uint32_t step, std::int64_t count,
             const std::vector<std::string>& formats, std::span<const Rounding> roundings = kRoundings) {
  const Tensor x = floats_of(first, step, count);
  const Tensor random = uniform({count}, 11);
  for (const std::string& name : formats)
    for (const Rounding rounding : roundings) {
      const Tensor y = quantized(x, format_named(name), rounding, rounding == Rounding::stochastic ? random : Tensor{});
      EXPECT_EQ(differences(y, cpu, cuda), 0) << name << " " << to_string(rounding) << " from " << first;
    }
}

// Every exponent and sign with 2,048 mantissas each.
TEST(CudaFormats, EveryFormatHasTheBitsOfTheCpu) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  compare(*cpu, *cuda, 0, 0x1001, 1 << 20, format_names());
  compare(*cpu, *cuda, 0, 0x1001, 1 << 20, {"e3m4", "e8m1", "e6m15", "e5m21", "binary8p3se", "binary8p4sf"});
}

TEST(CudaFormats, ScalesHaveTheBitsOfTheCpu) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  const Tensor x = evaluate(normal({37, 50, 7}, 3) * exp(6.0 * normal({37, 50, 7}, 4)), *cpu);
  for (const ScaleGroup group : {ScaleGroup::tensor, ScaleGroup::channel, ScaleGroup::block})
    for (const char* name : {"e4m3", "e2m1", "int8", "bf16"})
      for (const Rounding rounding : kRoundings) {
        const Tensor random = rounding == Rounding::stochastic ? uniform(x.shape(), 5) : Tensor{};
        const Tensor y = scaled_quantized(x, format_named(name), {.group = group, .axis = 1}, rounding, random);
        EXPECT_EQ(differences(y, *cpu, *cuda), 0) << name << " " << to_string(group) << " " << to_string(rounding);
      }
}

// The stored types of 8 bits: to them by stores and casts, and from them.
TEST(CudaFormats, StoredTypesHaveTheBitsOfTheCpu) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  const Tensor x = floats_of(0, 0x1001, 1 << 20),
               many = evaluate(cast(floats_of(0, 0x401, 1 << 22), Dtype::bf16), *cpu);  // 16 of a thread
  for (const Dtype dtype : {Dtype::f8e4m3, Dtype::f8e5m2})
    for (const Tensor& from : {x, cast(x, Dtype::f64) * (1 + 0x1p-40), cast(x, Dtype::f16), many}) {
      const Array expected = evaluate(cast(from, dtype), *cpu).array(),
                  found = evaluate(cast(from, dtype), *cuda).array();
      EXPECT_TRUE(std::equal(expected.bytes(), expected.bytes() + expected.size(), found.bytes())) << to_string(dtype);
      EXPECT_EQ(differences(cast(cast(from, dtype), Dtype::f32) * 1.0, *cpu, *cuda), 0) << to_string(dtype);
      EXPECT_EQ(differences(cast(Tensor(expected), Dtype::f32), *cpu, *cuda), 0) << to_string(dtype);
    }
}

// All f32 numbers through the formats that products are stored in, a sixteenth in each test.
class CudaEveryFloat : public ::testing::TestWithParam<std::uint32_t> {};
TEST_P(CudaEveryFloat, HasTheBitsOfTheCpu) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  constexpr std::uint32_t kPiece = 1 << 26;
  for (std::uint32_t piece = 0; piece < 4; ++piece)
    compare(*cpu, *cuda, (4 * GetParam() + piece) * kPiece, 1, kPiece, {"f16", "bf16", "e4m3", "e5m2"},
            std::span(kRoundings).first(1));
}
INSTANTIATE_TEST_SUITE_P(Long, CudaEveryFloat, ::testing::Range(0U, 16U));

}  // namespace
}  // namespace nixie
#endif
