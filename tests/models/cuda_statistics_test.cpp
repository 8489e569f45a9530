// Statistics on a GPU: the CPU's counts and maxima for the same numbers, of every exponent. Skipped where there is no
// GPU.
#ifdef NIXIE_WITH_CUDA
#include <gtest/gtest.h>

#include <bit>

#include "nixie/backends/cpu/backend.h"
#include "nixie/core/step.h"
#include "nixie/models/statistics.h"
#include "nixie/tests/backends/cuda/device.h"

namespace nixie {
namespace {

// Numbers of every exponent and sign, infinities and NaN among them.
Array numbers(const Shape& shape) {
  std::vector<float> x(static_cast<std::size_t>(shape.size()));
  std::uint32_t bits = 0;
  for (float& each : x) each = std::bit_cast<float>(bits), bits += 0x9e3779b9;
  return Array::from(x, shape);
}

std::vector<TensorStatistics> measured(Backend& backend, PrecisionPolicy precision, const Shape& shape, bool is_made) {
  Statistics statistics({}, precision);
  Step step(
      backend,
      [&](const Inputs& in) {
        const Tensor x = is_made ? in["x"] * 0.5 : in["x"];  // fused with the kernel that makes it, or read
        statistics.observe(x, "x", "activations");
        statistics.record(0);
        return Outputs{{"x", x}};
      },
      precision);
  step({{"x", numbers(shape)}});
  return statistics.results();
}

TEST(CudaStatistics, CountsAndMaximaAreThoseOfTheCpu) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  const auto cpu = make_cpu_backend();
  for (const PrecisionPolicy precision : {PrecisionPolicy::fp32, PrecisionPolicy::fp16, PrecisionPolicy::bf16})
    for (const Shape& shape : {Shape{65536}, Shape{64, 33, 5, 7}, Shape{3, 1001}, Shape{1, 8, 1, 16}})
      for (const bool is_made : {false, true}) {
        const TensorStatistics a = measured(*cpu, precision, shape, is_made)[0],
                               b = measured(*cuda, precision, shape, is_made)[0];
        const std::string name = fmt::format("{} {} {}", to_string(precision), shape, is_made);
        EXPECT_EQ(a.zeros, b.zeros) << name;
        EXPECT_EQ(a.saturated, b.saturated) << name;
        EXPECT_EQ(a.infinite, b.infinite) << name;
        EXPECT_EQ(a.nan, b.nan) << name;
        EXPECT_EQ(a.largest, b.largest) << name;
        EXPECT_EQ(a.exponents, b.exponents) << name;
        EXPECT_TRUE(a.nan > 0 || shape.size() < 1000) << name;
      }
}

}  // namespace
}  // namespace nixie
#endif
