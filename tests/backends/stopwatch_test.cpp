// The stopwatch of a backend: one interval between two marks, by whichever clock it has.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "nixie/backends/registry.h"

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

}  // namespace
}  // namespace nixie
