// The message about a plan that does not fit: its largest tensors, and a batch that should fit.
#include "nixie/core/passes/plan_too_large.h"

#include "nixie/backends/null/backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

Tensor input(const char* name, const Shape& shape) { return Tensor::make(Input{.name = name}, {}, shape, Dtype::f32); }

// A step whose arena grows with its batch, but not only: [N, K] is multiplied by itself transposed.
Graph step_graph(std::int64_t batch, std::int64_t features) {
  const Tensor x = input("x", {batch, features}), w = input("w", {features, features});
  const Tensor hidden = matmul(tanh(matmul(x, w)), w);
  return {.outputs = {sum(matmul(transpose(hidden), x) * matmul(w, w))}};
}

TEST(MemoryReport, TheLargestBatchIsFoundByPlanningAgain) {
  const BytesOfBatch none = [](std::int64_t) { return 0; };
  const auto null = make_null_backend();
  const auto arena = [&](std::int64_t batch) { return make_plan(step_graph(batch, 256), *null).arena_bytes; };
  const Plan plan = make_plan(step_graph(100'000, 256), *null);
  EXPECT_EQ(plan.batch, 100'000);
  for (std::int64_t batch : {9, 77, 50'000, 99'999}) {
    EXPECT_EQ(largest_batch(plan, none, arena(batch)), batch);
    EXPECT_EQ(largest_batch(plan, none, arena(batch) - 1), batch - 1);
  }
  EXPECT_EQ(largest_batch(plan, none, 1000), 0);
  // Memory beside the arena, that grows with the batch or does not.
  const auto grows = [](std::int64_t batch) { return 100 * batch; };
  EXPECT_EQ(largest_batch(plan, grows, arena(77) + 7700), 77);
  EXPECT_EQ(largest_batch(
                plan, [](std::int64_t) { return 4096; }, arena(77) + 4096),
            77);
  const PlanTooLarge error("cuda", plan, none, arena(77));
  EXPECT_EQ(error.fitting_batch(), 77);
  const std::string report = error.what();
  EXPECT_THAT(report, HasSubstr(fmt::format("the step needs {} MiB", arena(100'000) >> 20)));
  EXPECT_THAT(report, HasSubstr(" f32 [100000, 256] (97 MiB)"));
  EXPECT_THAT(report, HasSubstr("; a batch of 77 should fit"));
  const PlanTooLarge hopeless("cuda", plan, none, 1000);
  EXPECT_EQ(hopeless.fitting_batch(), 0);
  EXPECT_THAT(std::string(hopeless.what()), HasSubstr("no batch is sure to fit"));
}

// The gradient of a linear layer's weights can be the largest tensor by far; its rows are not the batch.
TEST(MemoryReport, TheBatchIsThatOfTheInput) {
  const auto null = make_null_backend();
  Parameters parameters;
  const Variable w = parameters.make("w", {4096, 1000});
  Step step(*null, [&](const Inputs& in) {
    const Tensor loss = mean(square(matmul(in["x"], transpose(w))));
    for (const Gradient& gradient : gradients(loss, parameters))
      gradient.parameter.set(gradient.parameter - gradient.value / sqrt(sum(square(gradient.value))));
    return Outputs{{"loss", loss}};
  });
  const Plan& plan = step.plan({{"x", Array(Dtype::f32, {32, 1000})}});
  EXPECT_EQ(plan.batch, 32);
  const BytesOfBatch none = [](std::int64_t) { return 0; };
  EXPECT_EQ(PlanTooLarge("cpu", plan, none, 0).fitting_batch(), 0);
}

TEST(MemoryReport, WithoutInputsNoBatchIsNamed) {
  const auto null = make_null_backend();
  const Tensor x = uniform({4096, 4096}, 7);
  const Plan plan = make_plan({.outputs = {sum(matmul(x, x))}}, *null);
  const PlanTooLarge error(
      "cpu", plan, [](std::int64_t) { return 0; }, 0);
  EXPECT_EQ(error.fitting_batch(), 0);
  EXPECT_TRUE(std::string(error.what()).ends_with("; use a larger device or smaller arrays")) << error.what();
}

// The CPU's plans share the memory of what lives only during a run.
TEST(MemoryReport, APlanThatDoesNotFitLeavesTheOthers) {
  const auto total_of_products = [](const Inputs& in) {
    const Tensor y = matmul(in["x"], transpose(in["x"]));
    return Outputs{{"total", sum(matmul(y, y))}};
  };
  Step small(test_backend(), total_of_products), large(test_backend(), total_of_products);
  const Array x = Array::from(std::vector<float>{1, 2, 3, 4}, {4, 1});
  EXPECT_EQ(small({{"x", x}})["total"].item(), 3000);  // of (x x^T)^2 = 30 x x^T
  const Tensor wide = broadcast_to(Tensor(Array::from(std::vector<float>{1}, {1, 1})), {1 << 24, 1});
  EXPECT_THROW(large({{"x", evaluate(wide, test_backend()).array()}}), PlanTooLarge);
  EXPECT_EQ(small({{"x", x}})["total"].item(), 3000);
}

}  // namespace
}  // namespace nixie
