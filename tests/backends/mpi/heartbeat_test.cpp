// Heartbeats of ranks that are objects of one process: who is named when signs cease, or when a step hangs.
#include "nixie/backends/mpi/heartbeat.h"

#include <gmock/gmock.h>

#include <deque>
#include <mutex>

#include "nixie/tests/ranks.h"

namespace nixie {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

/// The signs that are on their way to each rank.
struct Wire {
  std::mutex mutex;
  std::vector<int> signs;
};

class Rank final : public Signs {
 public:
  Rank(int rank, Wire& wire) : rank_(rank), wire_(wire) {}
  void send_sign(int rank) override {
    const std::lock_guard lock(wire_.mutex);
    if (lives) ++wire_.signs[static_cast<std::size_t>(rank)];
  }
  bool take_sign(int) override {
    const std::lock_guard lock(wire_.mutex);
    return std::exchange(wire_.signs[static_cast<std::size_t>(rank_)], 0) > 0;
  }
  std::int64_t exchanges() const override { return done; }

  std::atomic<bool> lives{true};
  std::atomic<std::int64_t> done{0};

 private:
  int rank_;
  Wire& wire_;
};

constexpr auto kSilence = 300ms;

class HeartbeatTest : public testing::Test {
 protected:
  explicit HeartbeatTest(int size = 3) {
    wire_.signs.resize(static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      worlds_.push_back(test::alone_of(size, rank));
      ranks_.emplace_back(rank, wire_);
    }
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      beats_.emplace_back(
          *worlds_[i].communicator(), ranks_[i],
          [this](const std::string& line) {
            const std::lock_guard lock(wire_.mutex);
            lines_.push_back(line);
          },
          Heartbeat::Limits{.interval = 10ms, .silence = kSilence});
  }
  /// What was said until then.
  std::vector<std::string> lines_after(std::chrono::milliseconds time) {
    std::this_thread::sleep_for(time);
    const std::lock_guard lock(wire_.mutex);
    return lines_;
  }
  /// A rank exchanges something every 20 ms.
  void step(std::size_t rank, int times = 10) {
    for (int i = 0; i < times; ++i) ranks_[rank].done += 2, std::this_thread::sleep_for(20ms);
  }

  Wire wire_;
  std::vector<World> worlds_;
  std::deque<Rank> ranks_;
  std::vector<std::string> lines_;
  std::deque<Heartbeat> beats_;  // last: they use the members above
};

TEST_F(HeartbeatTest, RanksThatLiveEndNothing) { EXPECT_THAT(lines_after(3 * kSilence), IsEmpty()); }

TEST_F(HeartbeatTest, ASilentRankIsNamedByTheOneBeforeIt) {
  ranks_[0].lives = false;
  const auto lines = lines_after(2 * kSilence);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("rank 0 of 3 on here gave no sign of life for 0 s: its process is stopped, or its "
                                  "machine or network is down; the job ends, and --resume goes on from its last"));
}

TEST_F(HeartbeatTest, AStepThatHangsIsNamedByItsRank) {
  beats_[1].expect_exchanges(true);
  step(1);
  const auto lines = lines_after(3 * kSilence);  // meanwhile its heart does not beat: the job is to end
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines[0], HasSubstr("rank 1 of 3 on here hangs: its training step has exchanged nothing for "));
}

TEST_F(HeartbeatTest, WorkWithoutALimitEndsNothing) {
  beats_[0].expect_exchanges(true);  // waits for the others, however long
  step(0);
  ++ranks_[0].done;
  beats_[1].expect_exchanges(true);  // reads or saves
  step(1);
  beats_[1].expect_exchanges(false);
  beats_[2].expect_exchanges(true);  // its steps are ten times shorter than the pause
  for (int i = 0; i < 4; ++i) step(2, 1), std::this_thread::sleep_for(kSilence / 2);
  EXPECT_THAT(lines_after(2 * kSilence), IsEmpty());
}

}  // namespace
}  // namespace nixie
