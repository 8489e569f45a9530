// Schedules the work of a filter gradient (tiles x stages of pixels) over the blocks of conv_wgrad_sm90.cuh.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace nixie::cuda {

/// The most rows and columns of tiles that WgradItem::tile can number.
constexpr std::int64_t kMostTileRows = 65535, kMostTileColumns = 32767;

/// Stages [first, first + count) of a tile, and the slot of the workspace for their sums; -1: the item is a whole tile.
/// The kernel reads this layout.
struct WgradItem {
  std::int32_t tile = 0;  ///< row | column << 16
  std::int32_t first = 0, count = 0, slot = -1;
};

/// The parts of a tile that several items share: slots [first, first + count) of the workspace.
struct WgradSplit {
  std::int32_t tile = 0, first = 0, count = 0, unused = 0;
};

struct WgradSchedule {
  std::vector<WgradItem> items;           ///< ordered by block
  std::vector<std::int32_t> first_items;  ///< the first item of each block, then the number of items
  std::vector<WgradSplit> splits;
  int slots = 0;
};

/// Deals whole tiles to the workers in turn, as many to each. Each tile that is left over is cut into equal chunks from
/// its start, one per worker, so that all tiles read the same pixels at the same time, which keeps these in L2; workers
/// that are still free share the ends of these tiles. No item has more than `most` stages. Without `cut` the tiles that
/// are left over are dealt to the workers whole, too.
inline WgradSchedule schedule_wgrad(int rows, int columns, int stages, int workers,
                                    int most = std::numeric_limits<int>::max(), bool cut = true) {
  struct Piece {
    int tile, first, count;
  };
  constexpr int epilogue = 6;  // the cost of storing a tile, in stages
  const int tiles = rows * columns, rest = cut ? tiles % workers : 0, whole = tiles - rest;
  std::vector<std::vector<Piece>> plan(static_cast<std::size_t>(workers));
  for (int tile = 0; tile < whole; ++tile) plan[static_cast<std::size_t>(tile % workers)].push_back({tile, 0, stages});
  if (rest > 0) {
    const int chunks = std::min(workers / rest, stages), spare = workers - chunks * rest;
    // Cuts the ends of the tiles, from stage chunks * length on, into shares that cost as much as a chunk.
    auto deal = [&](int length) {
      std::vector<std::vector<Piece>> shares;
      int room = 0;
      for (int i = 0; i < rest; ++i) {
        for (int first = chunks * length; first < stages;) {
          if (room <= epilogue) shares.emplace_back(), room = length + epilogue;
          const int count = std::min(stages - first, room - epilogue);
          shares.back().push_back({whole + i, first, count});
          first += count, room -= count + epilogue;
        }
      }
      return shares;
    };
    int length = static_cast<int>(std::max<std::int64_t>(1, std::int64_t{stages} * rest / workers));
    auto shares = deal(length);
    while (chunks * length<stages&& static_cast<int>(shares.size())> spare) shares = deal(++length);
    for (int j = 0; j < chunks; ++j)
      for (int i = 0; i < rest; ++i)
        if (const int first = j * length; first < stages)
          plan[static_cast<std::size_t>(j * rest + i)].push_back({whole + i, first, std::min(length, stages - first)});
    for (std::size_t i = 0; i < shares.size(); ++i)
      for (const Piece& piece : shares[i]) plan[static_cast<std::size_t>(chunks * rest) + i].push_back(piece);
  }

  for (auto& pieces : plan) {
    std::vector<Piece> cut;
    for (const Piece& piece : pieces) {
      const int parts = (piece.count - 1) / most + 1;
      for (int i = 0; i < parts; ++i) {
        const auto at = [&](int part) { return static_cast<int>(std::int64_t{piece.count} * part / parts); };
        cut.push_back({piece.tile, piece.first + at(i), at(i + 1) - at(i)});
      }
    }
    pieces = std::move(cut);
  }

  std::vector<std::vector<int>> starts(static_cast<std::size_t>(tiles));  // of each tile's pieces, sorted
  for (const auto& pieces : plan)
    for (const Piece& piece : pieces) starts[static_cast<std::size_t>(piece.tile)].push_back(piece.first);
  WgradSchedule schedule;
  std::vector<int> slot(static_cast<std::size_t>(tiles));
  auto name = [&](int tile) { return tile % rows | tile / rows << 16; };
  for (int tile = 0; tile < tiles; ++tile) {
    auto& own = starts[static_cast<std::size_t>(tile)];
    std::sort(own.begin(), own.end());
    slot[static_cast<std::size_t>(tile)] = schedule.slots;
    if (own.size() < 2) continue;
    schedule.splits.push_back({name(tile), schedule.slots, static_cast<int>(own.size()), 0});
    schedule.slots += static_cast<int>(own.size());
  }
  schedule.first_items.push_back(0);
  for (const auto& pieces : plan) {
    for (const Piece& piece : pieces) {
      const auto& own = starts[static_cast<std::size_t>(piece.tile)];
      const auto at = std::lower_bound(own.begin(), own.end(), piece.first) - own.begin();
      const int part = own.size() < 2 ? -1 : slot[static_cast<std::size_t>(piece.tile)] + static_cast<int>(at);
      schedule.items.push_back({name(piece.tile), piece.first, piece.count, part});
    }
    schedule.first_items.push_back(static_cast<std::int32_t>(schedule.items.size()));
  }
  return schedule;
}

/// The schedule of clusters of `blocks` blocks, each of which takes its share of the stages of each item of its worker.
/// Every item has as many stages at least.
inline WgradSchedule shared_in_clusters(const WgradSchedule& schedule, int blocks) {
  WgradSchedule shared;
  shared.splits = schedule.splits, shared.slots = schedule.slots;
  shared.first_items.push_back(0);
  for (std::size_t worker = 0; worker + 1 < schedule.first_items.size(); ++worker)
    for (int block = 0; block < blocks; ++block) {
      for (std::int32_t i = schedule.first_items[worker]; i < schedule.first_items[worker + 1]; ++i) {
        const WgradItem& item = schedule.items[static_cast<std::size_t>(i)];
        const auto at = [&](int part) { return static_cast<int>(std::int64_t{item.count} * part / blocks); };
        shared.items.push_back({item.tile, item.first + at(block), at(block + 1) - at(block), item.slot});
      }
      shared.first_items.push_back(static_cast<std::int32_t>(shared.items.size()));
    }
  return shared;
}

}  // namespace nixie::cuda
