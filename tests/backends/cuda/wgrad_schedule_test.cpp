// The schedule of the filter gradient: every stage of every tile exactly once, parts in their own slots, work alike.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "nixie/backends/cuda/kernels/conv/wgrad/conv_wgrad_schedule.h"

namespace nixie::cuda {
namespace {

struct Case {
  int rows, columns, stages, workers;
  int most = 1 << 30;  // stages of an item
  bool cut = true;
};

// The most stages that a block runs, an epilogue of 6 for each item counted in.
int expect_covers(const Case& c) {
  const WgradSchedule s = schedule_wgrad(c.rows, c.columns, c.stages, c.workers, c.most, c.cut);
  EXPECT_EQ(s.first_items.size(), static_cast<std::size_t>(c.workers) + 1);
  EXPECT_EQ(s.first_items.back(), static_cast<int>(s.items.size()));
  std::map<int, std::vector<int>> seen;  // tile -> how often each stage
  std::map<int, std::vector<WgradItem>> parts;
  for (const WgradItem& item : s.items) {
    auto& count = seen.try_emplace(item.tile, static_cast<std::size_t>(c.stages)).first->second;
    EXPECT_GT(item.count, 0);
    EXPECT_LE(item.count, c.most);
    for (int i = item.first; i < item.first + item.count; ++i) ++count.at(static_cast<std::size_t>(i));
    parts[item.tile].push_back(item);
  }
  EXPECT_EQ(static_cast<int>(seen.size()), c.rows * c.columns);
  for (const auto& [tile, count] : seen) {
    EXPECT_LT(tile & 0xffff, c.rows);
    EXPECT_LT(tile >> 16, c.columns);
    for (int times : count) EXPECT_EQ(times, 1) << c.rows << ' ' << c.columns << ' ' << c.stages << ' ' << c.workers;
  }
  std::set<int> slots;
  std::map<int, WgradSplit> splits;
  for (const WgradSplit& split : s.splits) splits[split.tile] = split;
  for (const auto& [tile, items] : parts) {
    if (items.size() == 1) {
      EXPECT_EQ(items[0].slot, -1);
      EXPECT_EQ(splits.count(tile), 0u);
      continue;
    }
    const WgradSplit& split = splits.at(tile);
    EXPECT_EQ(split.count, static_cast<int>(items.size()));
    for (const WgradItem& item : items) {
      EXPECT_TRUE(item.slot >= split.first && item.slot < split.first + split.count);
      EXPECT_TRUE(slots.insert(item.slot).second) << "slot " << item.slot << " twice";
    }
  }
  EXPECT_EQ(static_cast<int>(slots.size()), s.slots);
  int most = 0;
  for (int b = 0; b < c.workers; ++b) {
    int cost = 0;
    for (int i = s.first_items[static_cast<std::size_t>(b)]; i < s.first_items[static_cast<std::size_t>(b) + 1]; ++i)
      cost += s.items[static_cast<std::size_t>(i)].count + 6;
    most = std::max(most, cost);
  }
  return most;
}

TEST(CudaWgradSchedule, CoversRandomShapesExactlyOnce) {
  std::mt19937 random(1);
  auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int i = 0; i < 2000; ++i) expect_covers({draw(1, 9), draw(1, 40), draw(1, 300), draw(1, 150)});
  for (const Case& c : {Case{1, 1, 1, 1}, {1, 1, 1, 132}, {132, 1, 1, 132}, {133, 1, 2, 132}, {1, 131, 5, 132}})
    expect_covers(c);
  for (int i = 0; i < 500; ++i) expect_covers({draw(1, 9), draw(1, 40), draw(1, 300), draw(1, 150), draw(1, 60)});
}

TEST(CudaWgradSchedule, WithoutCutsTilesAreWhole) {
  for (const Case& c : {Case{32, 16, 16, 132}, {8, 17, 5, 132}, {1, 3, 7, 132}}) {
    Case whole = c;
    whole.cut = false;
    const int rounds = (c.rows * c.columns - 1) / c.workers + 1;
    EXPECT_EQ(expect_covers(whole), rounds * (c.stages + 6));
    const WgradSchedule s = schedule_wgrad(c.rows, c.columns, c.stages, c.workers, c.most, false);
    EXPECT_EQ(s.slots, 0);
    EXPECT_TRUE(s.splits.empty());
  }
}

// 25 million stages of 131 tiles are more than an int counts.
TEST(CudaWgradSchedule, CoversTilesOfVeryManyStages) {
  constexpr int kStages = 25'000'000, kTiles = 131;
  for (const int most : {1 << 30, 512}) {
    const WgradSchedule s = schedule_wgrad(1, kTiles, kStages, 132, most);
    std::map<int, std::int64_t> stages;
    for (const WgradItem& item : s.items) {
      EXPECT_GE(item.first, 0);
      EXPECT_GT(item.count, 0);
      EXPECT_LE(item.count, most);
      stages[item.tile] += item.count;
    }
    EXPECT_EQ(stages.size(), std::size_t{kTiles});
    for (const auto& [tile, count] : stages) EXPECT_EQ(count, kStages) << "tile " << tile;
  }
}

// The blocks of a cluster take consecutive shares, as long as each other, of every item of their worker.
TEST(CudaWgradSchedule, BlocksOfAClusterShareItems) {
  for (const Case& c : {Case{8, 4, 98, 66}, {1, 1, 784, 33}, {2, 50, 40, 66}, {9, 9, 300, 33, 60}})
    for (const int blocks : {2, 4}) {
      const WgradSchedule whole = schedule_wgrad(c.rows, c.columns, c.stages, c.workers, c.most),
                          shared = shared_in_clusters(whole, blocks);
      EXPECT_EQ(shared.slots, whole.slots);
      EXPECT_EQ(shared.splits.size(), whole.splits.size());
      ASSERT_EQ(shared.first_items.size(), static_cast<std::size_t>(blocks * c.workers) + 1);
      for (int worker = 0; worker < c.workers; ++worker) {
        const int first = whole.first_items.at(static_cast<std::size_t>(worker)),
                  count = whole.first_items.at(static_cast<std::size_t>(worker) + 1) - first;
        for (int i = 0; i < count; ++i) {
          const WgradItem& item = whole.items.at(static_cast<std::size_t>(first + i));
          int next = item.first;
          for (int block = 0; block < blocks; ++block) {
            const auto of_block = static_cast<std::size_t>(worker * blocks + block);
            ASSERT_EQ(shared.first_items.at(of_block + 1) - shared.first_items.at(of_block), count);
            const WgradItem& part = shared.items.at(static_cast<std::size_t>(shared.first_items.at(of_block) + i));
            EXPECT_EQ(part.tile, item.tile);
            EXPECT_EQ(part.slot, item.slot);
            EXPECT_EQ(part.first, next);
            EXPECT_LE(std::abs(part.count * blocks - item.count), blocks);
            next += part.count;
          }
          EXPECT_EQ(next, item.first + item.count);
        }
      }
    }
}

TEST(CudaWgradSchedule, BlocksEndTogether) {
  // Tiles of 128 x 256 of layers of VGG-A and Overfeat on 132 multiprocessors: at most an eighth above an even share.
  for (const Case& c :
       {Case{2, 9, 3136, 132}, {4, 18, 784, 132}, {4, 18, 196, 132}, {4, 9, 784, 132}, {8, 36, 288, 132}}) {
    const double even = 1.0 * c.rows * c.columns * c.stages / c.workers;
    EXPECT_LT(expect_covers(c), even * 1.125 + 6);
  }
}

}  // namespace
}  // namespace nixie::cuda
