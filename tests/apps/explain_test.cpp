// The explain program and the examples, by what they print.
#include "nixie/tests/apps/expect_ran.h"

namespace nixie {
namespace {

TEST(Explain, ShowsLayersGraphAndPlan) {
  expect_ran(run_program("explain lenet --batch 4 --graph --plan"), 0, "1663370 parameters in 8 arrays",
             ContainsRegex("conv2d +\\[32, 28, 28\\] +832 +1[.]254 +98[.]0 +out 32, kernel 5, pad 2"),
             ContainsRegex("conv output stride .* f32 \\[4, 32, 28, 28\\]"), ContainsRegex("set 0.weight to %[0-9]+"),
             ContainsRegex("plan for null: [0-9]+ kernels, [0-9]+ slots"));
}

#ifdef NIXIE_WITH_CUDA
TEST(Explain, PrintsPricesWithoutAModel) {
  expect_ran(run_program("explain --prices"), 0, ContainsRegex("H200 +sm_90a +132 +3[.]00 +9[.]2 +600 +48[.]0"),
             ContainsRegex("H100 +sm_90a +132 +2[.]10"));
}

TEST(Explain, ListsTheKernelsOfAGpuThatIsNotThere) {
  expect_ran(run_program("explain alexnet --batch 128 --set precision=fp16 --chip H200"), 0,
             ContainsRegex("plan for H200: [0-9]+ kernels"), ContainsRegex("us +kernel +operation"),
             ContainsRegex("[1-9][0-9.]* +conv_fprop_sm90 [0-9]+x[0-9]+ +f16 convolution of 128x192x13x13 by 384x3x3"),
             ContainsRegex("[1-9][0-9.]* +[0-9]+ launches, one after another"));
  expect_ran(run_program("explain alexnet --chip sm_80"), 0, ContainsRegex("[1-9][0-9.]* +gemm [0-9]+x[0-9]+"));
  expect_ran(run_program("explain alexnet --chip H3"), 2, "chip H3 is unknown, expected one of A100 (sm_80)");
  expect_ran(run_program("explain alexnet --chip H200 --backend cpu"), 2, "--chip");
}
#endif

Ran explain(const std::string& arguments) { return run_program("explain " + arguments); }

TEST(Explain, TakesEveryNetAndConfigurations) {
  expect_runs(explain, {{"mlp", 0, "535818 parameters"},
                        {"alexnet", 0, "61100840 parameters in 16 arrays"},
                        {"alexnet --set model.alexnet.classes=10 --batch 2", 0, "training step of batch 2"},
                        {"resnet18 --batch 1", 0, "layer1.0.conv1"},
                        {std::string(NIXIE_SOURCE_DIR) + "/configs/cifar10.yaml", 0, "batch_norm"},
                        {"mlp --input 3,8,8", 0, "[10]"}});
}

TEST(Explain, RefusesWhatItDoesNotKnow) {
  expect_runs(explain,
              {{"lenet --device gpu", 2, "; write --backend cuda"},
               {"lenett", 2, "did you mean \"lenet\"?"},
               {"lenet --backend gpu", 2, "gpu"},
               {"lenet --input 1,2", 2, "--input has 2 numbers"},
               {"lenet --batch 0", 2, "--batch: Value 0 not in range"},  // what follows depends on CLI11's version
               {"lenet --batch 99999999999", 2, "--batch: Value 99999999999 not in range"},
               {"", 2, "MODEL"},
               {"none.yaml", 2, "none.yaml"}});
}

TEST(Examples, OwnOpHasItsGradientAndRunsAsOneKernel) {
  expect_ran(run_program("own_op"), 0, "x  1.00   softsign(2 x) + 1  1.6667   gradient  0.2222",
             "x -3.00   softsign(2 x) + 1  0.1429   gradient  0.0408", "mean huber(x) 1.2857");  // 9/7
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
