// The formats that a study chooses from measured errors.
#include "nixie/apps/trainer/study/narrowest_formats.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

TEST(NarrowestFormats, AreThoseThatAreGoodEnough) {
  const std::vector<Format> formats = {format_named("bf16"), format_named("e4m3"), format_named("e5m2"),
                                       format_named("e2m1")};
  const auto row = [](const char* layer, const char* role, double e4m3, double e5m2, double e2m1) {
    return TensorStatistics{.layer = layer, .role = role, .formats = {{1e-6}, {e4m3}, {e5m2}, {e2m1}}};
  };
  constexpr const char *weights = "weights", *gradients = "gradients";
  const std::vector<FormatRule> rules = narrowest_formats(
      formats,
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
  EXPECT_EQ(narrowest_formats(formats, {row("a", weights, 1, 1, 1)}, 1e-9)[0].weights, "");
}

}  // namespace
}  // namespace nixie
