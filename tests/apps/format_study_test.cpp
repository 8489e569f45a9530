// What a study of formats measures, against the same sums by hand; what it chooses; that it changes no training.
#include "nixie/apps/trainer/study/format_study.h"

#include <gtest/gtest.h>

#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

const std::vector<float> kX = {0, 100, -3, 0.01F, 448, -1000};

TEST(FormatStudy, MeasuresEachOperandOverTheSteps) {
  FormatStudy study({format_named("e4m3"), format_named("int8")}, {.scale = "none"});
  const Variable w("w", Array::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {6, 1}));
  Step step(test_backend(), [&](const Inputs& in) {
    const OperandScope scope(study.rule());
    const Scope layer("fc");
    return Outputs{{"slope", gradients(sum(matmul(in["x"], w)), {Tensor(w)})[0]}};
  });
  for (const float factor : {1.0F, 0.5F}) {
    std::vector<float> x = kX;
    for (float& each : x) each *= factor;
    EXPECT_EQ(step({{"x", Array::from(x, {1, 6})}})["slope"].to_vector<float>(), x);  // as it is without the study
  }
  const std::vector<OperandErrors> rows = study.results();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].layer, "fc");
  EXPECT_EQ(rows[0].role, OperandRole::activations);
  EXPECT_EQ(rows[0].largest, 1000);
  EXPECT_NEAR(rows[0].magnitude, (1551.01 + 1551.01 / 2) / 12, 1e-3);
  EXPECT_NEAR(rows[0].zeros, 1 / 6.0, 1e-6);
  EXPECT_EQ(rows[0].not_finite, 0);
  // e4m3: 100 is 96 or 104 (a tie: 96), 0.01 is 0.009765625, 1000 saturates at 448; half of them: 500 saturates.
  const double energy = 100.0 * 100 + 9 + 1e-4 + 448.0 * 448 + 1e6, first = 16 + 552.0 * 552, second = 4 + 52.0 * 52;
  EXPECT_NEAR(rows[0].formats[0].error, (first / energy + second / (energy / 4)) / 2, 1e-6);
  EXPECT_NEAR(rows[0].formats[0].saturated, 1 / 6.0, 1e-6);
  EXPECT_EQ(rows[0].formats[0].lost, 0);
  EXPECT_NEAR(rows[0].formats[1].lost, 1 / 5.0, 1e-6);  // int8 has no 0.01
  EXPECT_NEAR(rows[0].formats[1].saturated, 2 / 6.0, 1e-6);
  EXPECT_EQ(rows[1].role, OperandRole::weights);
  EXPECT_EQ(rows[1].formats[0].error, 0);
  EXPECT_EQ(rows[2].role, OperandRole::gradients);
  EXPECT_EQ(rows[2].magnitude, 1);
}

TEST(FormatStudy, ChoosesTheNarrowestThatIsGoodEnough) {
  const FormatStudy study({format_named("bf16"), format_named("e4m3"), format_named("e5m2"), format_named("e2m1")}, {});
  const auto row = [](const char* layer, OperandRole role, double e4m3, double e5m2, double e2m1) {
    return OperandErrors{.layer = layer, .role = role, .formats = {{1e-6}, {e4m3}, {e5m2}, {e2m1}}};
  };
  using enum OperandRole;
  const std::vector<FormatRule> rules = narrowest_formats(
      study,
      {row("a", weights, 7e-4, 3e-3, 2e-2), row("a", gradients, 9e-4, 8e-4, 1e-1), row("b", weights, 1e-2, 1e-2, 1e-4),
       row("c", weights, 7e-4, 3e-3, 2e-2), row("c", gradients, 9e-4, 8e-4, 1e-1)},
      1e-3);
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].layers, "b");
  EXPECT_EQ(rules[0].weights, "e2m1");
  EXPECT_EQ(rules[0].gradients, "");
  EXPECT_EQ(rules[1].layers, "*");
  EXPECT_EQ(rules[1].weights, "e4m3");
  EXPECT_EQ(rules[1].gradients, "e5m2");
  EXPECT_EQ(narrowest_formats(study, {row("a", weights, 1, 1, 1)}, 1e-9)[0].weights, "");
}

}  // namespace
}  // namespace nixie
