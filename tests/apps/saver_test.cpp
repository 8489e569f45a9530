// Saver: work in the background, in order; and a run that saves while it trains.
#include "nixie/apps/trainer/record/saver.h"

#include <latch>

#include "nixie/tests/errors.h"

namespace nixie {
namespace {

TEST(Saver, ReturnsAtOnceAndWaitsForTheWorkBefore) {
  Saver saver;
  std::latch may_end(1);
  std::atomic<int> done = 0;
  saver.start([&] { may_end.wait(), done = 1; });
  saver.check();  // waits for nothing
  EXPECT_EQ(done, 0);
  std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(done, 0);
    may_end.count_down();
  });
  saver.start([&] { EXPECT_EQ(done.exchange(2), 1); });
  saver.wait();
  EXPECT_EQ(done, 2);
}

TEST(Saver, GivesErrorsToWhoeverAsksNext) {
  for (const auto& ask : {+[](Saver& saver) { saver.wait(); }, +[](Saver& saver) { saver.start([] {}); }}) {
    Saver saver;
    saver.start([] { fail(Fault::storage, "the disk is full"); });
    EXPECT_EQ(error_of(Fault::storage, [&] { ask(saver); }), "the disk is full");
    saver.check();  // given once
    saver.wait();
  }
  Saver lost;
  lost.start([] { fail(Fault::storage, "nobody asks"); });
}

TEST(Saver, EndsWhatItBegan) {
  std::atomic<bool> is_done = false;
  {
    Saver saver;
    saver.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      is_done = true;
    });
  }
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace nixie
