// The stopwatch of a backend: one interval between two marks, by whichever clock it has.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "nixie/backends/registry.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/step.h"
#ifdef NIXIE_WITH_CUDA
#include "nixie/tests/backends/cuda/device.h"
#endif

namespace nixie {
namespace {

TEST(Stopwatch, GivesTheTimeBetweenMarksAndForgetsThem) {
  const auto backend = make_backend("cpu");
  const auto stopwatch = backend->stopwatch();
  EXPECT_TRUE(stopwatch->intervals_ms().empty());
  stopwatch->mark();
  EXPECT_TRUE(stopwatch->intervals_ms().empty()) << "one mark, no interval";
  for (int i = 0; i < 2; ++i) stopwatch->mark();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  stopwatch->mark();
  const std::vector<double> intervals = stopwatch->intervals_ms();
  ASSERT_EQ(intervals.size(), 2u);
  EXPECT_GE(intervals[0], 0);
  EXPECT_GE(intervals[1], 20);
  EXPECT_TRUE(stopwatch->intervals_ms().empty());
}

#ifdef NIXIE_WITH_CUDA
// A kernel of a few microseconds, launched by a host that takes longer.
TEST(CudaStopwatch, LeavesOutWhatTheHostTakes) {
  const auto cuda = cuda_or_null();
  if (!cuda) GTEST_SKIP() << "no GPU";
  Step step(*cuda, [](const Inputs& in) -> Outputs { return {{"y", in["x"] + 1}}; });
  const Tensor x = evaluate(zeros({1024}), *cuda);
  const auto run = [&] { step({{"x", x}}); };
  for (int i = 0; i < 8; ++i) run();
  const auto stopwatch = cuda->stopwatch();
  stopwatch->mark();
  for (int i = 0; i < 300; ++i) {
    run();
    std::this_thread::sleep_for(std::chrono::microseconds(30));
    stopwatch->mark();
  }
  std::vector<double> intervals = stopwatch->intervals_ms();
  ASSERT_EQ(intervals.size(), 300u);
  std::ranges::sort(intervals);
  EXPECT_GT(intervals.front(), 0);
  EXPECT_LT(intervals[intervals.size() / 2], 0.025);
}
#endif

}  // namespace
}  // namespace nixie
