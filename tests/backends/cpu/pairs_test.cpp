// Two operations in one pass of the CPU backend against the one after the other: bitwise equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "nixie/tests/backends/plan_runner.h"

namespace nixie::testing {
namespace {

// out = second(first(a, b), c) or second(c, first(a, b)); stored, the value between them cannot stay in a register.
PlanCase pair_case(Primitive first, Primitive second, bool left, bool stores_both, Dtype type, std::int64_t side) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values{0, -0.0, 1, -1, infinity, -infinity, nan, 0.5, -2.5, 1e30, -1e-30};
  const auto count = static_cast<std::int64_t>(values.size());
  PlanCase c;
  std::mt19937 random(1);
  const Shape domain{side};
  Kernel kernel{.label = "pair", .domain = domain};
  Stage stage;
  for (int i = 0; i < 3; ++i) {
    kernel.loads.push_back(dense(c.slot(type, domain, random, -9, 9), domain));
    stage.body.push_back(load(i, type));
  }
  for (std::int64_t i = 0; i < std::min(side, count * count * count); ++i)
    for (const auto& [slot, at] : {std::pair{0, i % count}, {1, i / count % count}, {2, i / count / count}})
      set_element(c.memory[static_cast<std::size_t>(slot)], type, i, values[static_cast<std::size_t>(at)]);
  stage.body.push_back(apply(first, type, {0, 1, -1}));
  stage.body.push_back(apply(Primitive::neg, type, {3, -1, -1}));  // that nothing reads
  stage.body.push_back(apply(second, type, left ? std::array{3, 2, -1} : std::array{2, 3, -1}));
  for (const int value : {5, 3}) {
    kernel.stores.push_back(dense(c.slot(type, domain, random), domain));
    if (value == 5 || stores_both) stage.stores.push_back({.value = value, .access = value == 5 ? 0 : 1});
  }
  kernel.stages.push_back(stage);
  c.plan.kernels.push_back(kernel);
  return c;
}

TEST(CpuPairs, PairsOfOperationsAreTheOneAfterTheOther) {
  constexpr Primitive kBinary[] = {Primitive::add, Primitive::sub, Primitive::mul,  Primitive::div,
                                   Primitive::min, Primitive::max, Primitive::less, Primitive::less_equal};
  for (const Primitive first : kBinary)
    for (const Primitive second : kBinary)
      for (const bool left : {false, true})
        for (const Dtype type : {Dtype::f32, Dtype::f64}) {
          SCOPED_TRACE(std::string(to_string(first)) + ", " + std::string(to_string(second)));
          const PlanCase together = pair_case(first, second, left, false, type, 1400);
          std::vector<Bytes> apart = run_on_cpu(pair_case(first, second, left, true, type, 1400), 1);
          apart.back() = together.memory.back();
          expect_close(together, run_on_cpu(together, 2), apart, 0);
        }
}

}  // namespace
}  // namespace nixie::testing
