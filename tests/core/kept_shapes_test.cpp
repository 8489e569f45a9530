// The combinations of shapes whose plans a Step keeps, and what forgetting one leaves.
#include "nixie/tests/core/support.h"

namespace nixie {
namespace {

// Counts how often a step was traced, which is how often a combination of shapes was planned.
struct CountedStep {
  explicit CountedStep(const Variable& v)
      : step(cpu(), [this, v](const Inputs& in) {
          ++traced;
          v.set(v + 1);
          return Outputs{{"y", in["x"] * v}};
        }) {}
  std::vector<float> operator()(std::int64_t size) {
    return step({{"x", full({size}, 2.0)}}).at("y").to_vector<float>();
  }
  int traced = 0;
  Step step;
};

TEST(Step, KeepsTheShapesUsedLast) {
  const Variable v("v", Array::from(std::vector<float>{0}, {1}));
  CountedStep counted(v);
  counted.step.keep_at_most(2);
  struct Row {
    std::int64_t size;
    int traced;  // in all
  };
  float runs = 0;
  for (const auto& [size, traced] : {Row{1, 1}, {2, 2}, {1, 2}, {3, 3}, {1, 3}, {2, 4}, {1, 4}, {3, 5}, {2, 6}}) {
    EXPECT_EQ(counted(size), std::vector<float>(static_cast<std::size_t>(size), 2 * ++runs)) << size;
    EXPECT_EQ(counted.traced, traced) << size;
  }
}

TEST(Step, KeepsNoMoreShapesThanTheDefault) {
  const Variable v("v", Array::from(std::vector<float>{0}, {1}));
  CountedStep counted(v);
  const auto most = static_cast<std::int64_t>(Step::kMostKept);
  for (std::int64_t size = 1; size <= most + 1; ++size) counted(size);
  for (std::int64_t size = 2; size <= most + 1; ++size) counted(size);  // still there
  EXPECT_EQ(counted.traced, most + 1);
  counted(1);
  EXPECT_EQ(counted.traced, most + 2);
}

TEST(Step, ForgetsShapesButNoValues) {
  const Variable v("v", Array::from(std::vector<float>{0}, {1}));
  CountedStep counted(v);
  const Tensor x = full({2}, 2.0);
  const Outputs kept = counted.step({{"x", x}});
  counted.step.clear();
  EXPECT_EQ(kept.at("y").to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(counted(2), (std::vector<float>{4, 4}));
  EXPECT_EQ(counted.traced, 2);
  counted.step.keep_at_most(0);  // the one used last stays
  counted(2);
  EXPECT_EQ(counted.traced, 2);
}

TEST(Step, ForgetsNothingWhileItIsTraced) {
  Step* step = nullptr;
  Step own(cpu(), [&](const Inputs&) {
    step->clear();
    return Outputs{};
  });
  step = &own;
  EXPECT_FAULT(usage, "the body of the step runs the step itself", own({}));
}

}  // namespace
}  // namespace nixie
