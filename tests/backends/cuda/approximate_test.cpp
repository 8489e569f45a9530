// Which quotients are approximated, and how exact functions of all halves are on a GPU.
#ifdef NIXIE_WITH_CUDA
#include "nixie/backends/cuda/generate/approximate.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#include "nixie/layers/activation.h"
#include "nixie/tests/backends/cuda/device.h"
#include "nixie/tests/backends/cuda/plans.h"

namespace nixie {
namespace {

using cuda_plans::apply;
using cuda_plans::Draft;
using cuda_plans::load;
using cuda_plans::number;

TEST(CudaApproximation, IsOfQuotientsByAnExpOfHalves) {
  const struct {
    const char* what;
    Dtype loaded;
    std::vector<Instruction> body;  // after the load, r0
    bool last;
  } kCases[] = {
      {"logistic",
       Dtype::f16,
       {apply(Primitive::exp, {0}), number(1), apply(Primitive::add, {1, 2}), apply(Primitive::div, {2, 3})},
       true},
      {"logistic of bf16",
       Dtype::bf16,
       {apply(Primitive::exp, {0}), number(1), apply(Primitive::add, {1, 2}), apply(Primitive::div, {2, 3})},
       true},
      {"logistic of floats",
       Dtype::f32,
       {apply(Primitive::exp, {0}), number(1), apply(Primitive::add, {1, 2}), apply(Primitive::div, {2, 3})},
       false},
      {"by a half", Dtype::f16, {number(6), apply(Primitive::div, {1, 0})}, false},
      {"an exp by a number", Dtype::f16, {apply(Primitive::exp, {0}), number(3), apply(Primitive::div, {1, 2})}, false},
      {"by a square root", Dtype::f16, {apply(Primitive::sqrt, {0}), number(1), apply(Primitive::div, {2, 1})}, false},
      {"by an exp of a number",
       Dtype::f16,
       {number(2), apply(Primitive::exp, {1}), apply(Primitive::div, {0, 2})},
       false},
  };
  for (const auto& c : kCases) {
    Draft d(c.what);
    const Shape shape{8};
    Kernel kernel{.label = c.what, .domain = shape, .loads = {d.dense(d.slot(c.loaded, shape))}};
    Stage stage;
    stage.body = {load(0)};
    stage.body.insert(stage.body.end(), c.body.begin(), c.body.end());
    const std::vector<bool> found = cuda::approximate_quotients(d.plan, kernel, stage);
    ASSERT_EQ(found.size(), stage.body.size());
    EXPECT_EQ(found.back(), c.last) << c.what;
    for (std::size_t i = 0; i + 1 < found.size(); ++i) EXPECT_FALSE(found[i]) << c.what;
  }
}

// The distance to the neighbour of larger magnitude.
double unit_of_half(double value) { return std::ldexp(1, std::max(std::ilogb(value), -14) - 10); }

TEST(CudaApproximation, FunctionsOfAllHalvesAreRoundedNearlyRight) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  std::vector<double> all;
  for (int bits = 0; bits < 1 << 16; ++bits)
    if (const double x = convert<double>(std::bit_cast<Half>(static_cast<std::uint16_t>(bits))); std::isfinite(x))
      all.push_back(x);
  const Tensor x = Tensor(Array::from(all, {static_cast<std::int64_t>(all.size())}).to(Dtype::f16));
  const struct {
    const char* what;
    Tensor found;
    double (*exact)(double);
  } kCases[] = {{"sigmoid", sigmoid(x), [](double v) { return 1 / (1 + std::exp(-v)); }},
                {"silu", x * sigmoid(x), [](double v) { return v / (1 + std::exp(-v)); }}};
  for (const auto& c : kCases) {
    const std::vector<double> found = evaluate(c.found, *cuda).array().to(Dtype::f64).to_vector<double>();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double exact = c.exact(all[i]);
      // Half a unit, and a little: the product of the second rounds twice.
      EXPECT_NEAR(found[i], exact, 1.01 * unit_of_half(exact == 0 ? 1e-30 : exact)) << c.what << " of " << all[i];
    }
  }
}

}  // namespace
}  // namespace nixie
#endif
