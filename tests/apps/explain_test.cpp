// The explain program and the examples, by what they print.
#include <gmock/gmock.h>

#include "nixie/tests/apps/support.h"

namespace nixie {
namespace {

using namespace nixie::test;
using testing::HasSubstr;

TEST(Explain, ShowsLayersGraphAndPlan) {
  const Ran ran = run_program("explain lenet --batch 4 --graph --plan");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("1663370 parameters in 8 arrays"));
  EXPECT_THAT(ran.output,
              testing::ContainsRegex("conv2d +\\[32, 28, 28\\] +832 +1[.]254 +98[.]0 +out 32, kernel 5, pad 2"));
  EXPECT_THAT(ran.output, testing::ContainsRegex("conv output stride .* f32 \\[4, 32, 28, 28\\]"));
  EXPECT_THAT(ran.output, testing::ContainsRegex("set 0.weight to %[0-9]+"));
  EXPECT_THAT(ran.output, testing::ContainsRegex("plan for null: [0-9]+ kernels, [0-9]+ slots"));
}

#ifdef NIXIE_WITH_CUDA
TEST(Explain, PrintsPricesWithoutAModel) {
  const Ran ran = run_program("explain --prices");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, testing::ContainsRegex("H200 +sm_90a +132 +3[.]00 +9[.]2 +600 +48[.]0"));
  EXPECT_THAT(ran.output, testing::ContainsRegex("H100 +sm_90a +132 +2[.]10"));
}
#endif

TEST(Explain, TakesEveryNetAndConfigurations) {
  const struct {
    std::string arguments, expected;
  } kCases[] = {
      {"mlp", "535818 parameters"},
      {"alexnet", "61100840 parameters in 16 arrays"},
      {"alexnet --set model.alexnet.classes=10 --batch 2", "training step of batch 2"},
      {"resnet18 --batch 1", "layer1.0.conv1"},
      {std::string(NIXIE_SOURCE_DIR) + "/configs/cifar10.yaml", "batch_norm"},
      {"mlp --input 3,8,8", "[10]"},
  };
  for (const auto& c : kCases) {
    const Ran ran = run_program("explain " + c.arguments);
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(c.expected)) << c.arguments;
  }
}

TEST(Explain, RefusesWhatItDoesNotKnow) {
  const struct {
    std::string arguments, expected;
  } kCases[] = {{"lenet --device gpu", "; write --backend cuda"},
                {"lenett", "did you mean \"lenet\"?"},
                {"lenet --backend gpu", "gpu"},
                {"lenet --input 1,2", "--input has 2 numbers"},
                {"lenet --batch 0", "--batch: Value 0 not in range"},  // what follows depends on CLI11's version
                {"lenet --batch 99999999999", "--batch: Value 99999999999 not in range"},
                {"", "MODEL"},
                {"none.yaml", "none.yaml"}};
  for (const auto& c : kCases) {
    const Ran ran = run_program("explain " + c.arguments);
    EXPECT_EQ(ran.code, 2) << c.arguments;
    EXPECT_THAT(ran.output, HasSubstr(c.expected)) << c.arguments;
  }
}

TEST(Examples, OwnOpHasItsGradientAndRunsAsOneKernel) {
  const Ran ran = run_program("own_op");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.output, HasSubstr("x  1.00   softsign(2 x) + 1  1.6667   gradient  0.2222"));  // 1 + 2/3, 2/9
  EXPECT_THAT(ran.output, HasSubstr("x -3.00   softsign(2 x) + 1  0.1429   gradient  0.0408"));  // 1 - 6/7, 2/49
  EXPECT_THAT(ran.output, HasSubstr("mean huber(x) 1.2857"));                                    // 9/7
}

TEST(Examples, TrainInCppLearns) {
  const Ran ran = run_program("train_in_cpp");
  EXPECT_EQ(ran.code, 0) << ran.output;
  const std::size_t at = ran.output.rfind("test accuracy ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GT(std::stod(ran.output.substr(at + 14)), 0.9);
}

}  // namespace
}  // namespace nixie
