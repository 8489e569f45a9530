// The tiles of products by multiply-adds (gemm.cuh).
#include <algorithm>
#include <cmath>
#include <optional>

#include "nixie/backends/cuda/generate/products/tiles.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr std::int64_t kEnoughThreads = 256 * 256;

// One block adds the parts of a tile: more parts than each has steps would only move the wait there.
std::int64_t most_splits(const Product& p, const Tiling& t) {
  const std::int64_t steps = ceil_div(p.k, t.k);
  return std::clamp<std::int64_t>(std::min(steps / 8, static_cast<std::int64_t>(std::sqrt(static_cast<double>(steps)))),
                                  1, 128);
}

// Where most of a device would be idle even with parts, adding up more parts takes less time than waiting for long
// ones.
int splits_of(const Product& p, const Tiling& t) {
  const std::int64_t steps = ceil_div(p.k, t.k), tiles = std::max<std::int64_t>(t.tiles, 1);
  const std::int64_t most = std::max(most_splits(p, t), std::min(steps / 8, kSplitGroup * kSplitGroup / tiles));
  return static_cast<int>(std::clamp<std::int64_t>(kEnoughThreads / t.threads / tiles, 1, most));
}

}  // namespace

// Fitted to an H200's times of 86 layers of random shapes (standard deviation of the ratio: 25 %). A thread's pieces of
// operands are what steps wait for, the more of them the fewer warps fit an SM: narrow ones cost less than wide ones,
// but not in proportion; with a window, each has a position to find. A ragged one counts as two, which is a prediction.
TileWork work_of(const Product& p, const Tiling& t, int sms) {
  constexpr double kLatency = 910, kFlops = 443;  // in clocks, and per clock of a warp
  constexpr double kResults = 6.5;                // that an SM stores per clock
  const double depth = static_cast<double>(std::min<std::int64_t>(t.k, p.k)), warps = t.threads / 32.0;
  const auto pieces = [&](int lines, int width, bool ragged) {
    return lines * depth / t.threads / std::pow(std::min(width, 8), 0.73) * (ragged ? 2 : 1);
  };
  const double of_thread = pieces(t.m, p.vector_a, p.ragged_a) + pieces(t.n, p.vector_b, p.ragged_b);
  const double most = std::max(1.0, (of_thread <= 12   ? 16
                                     : of_thread <= 24 ? 12
                                                       : 8) /
                                        warps),
               blocks = static_cast<double>(t.tiles * t.splits) / sms;  // of an SM
  const double waves = blocks < 3 * most ? std::ceil(blocks / most) : blocks / most,
               together = std::clamp(blocks / waves, 1.0, most);
  const double piece = (p.one_tap ? 3.36 : 7.14) * (p.along_k_a || p.along_k_b ? 1 : 1.32),
               products = 2.0 * t.m * t.n * depth * together / kFlops / 32,
               step = kLatency + of_thread * piece * (2 + warps * together) + products;
  const double steps = std::ceil(static_cast<double>(ceil_div(p.k, t.k)) / t.splits),
               results = static_cast<double>(p.groups * p.m) * static_cast<double>(p.n) / (kResults * sms);
  return {{.clocks = t.measured * (waves * (steps * step + kLatency / 2) + results),
           .launches = t.measured * (t.splits > 1 ? 3 : 1.2)},
          std::min(1.0, blocks / most)};
}

std::vector<Tiling> multiply_add_tilings(const Product& p, Dtype compute) {
  static const Chip judge = chip_named("H200");
  static const std::vector<Tiling> kTiles{
      {.m = 128, .n = 128, .k = 8, .threads = 256, .thread_m = 8, .thread_n = 8, .blocks = 2, .measured = 1.9},
      {.m = 64, .n = 128, .k = 16, .threads = 128, .thread_m = 8, .thread_n = 8, .blocks = 3, .measured = 1.6},
      {.m = 128, .n = 64, .k = 16, .threads = 128, .thread_m = 8, .thread_n = 8, .blocks = 3, .measured = 1.7},
      {.m = 128, .n = 32, .k = 16, .threads = 128, .thread_m = 8, .thread_n = 4, .blocks = 3, .measured = 1.25},
      {.m = 64, .n = 64, .k = 16, .threads = 128, .thread_m = 8, .thread_n = 4, .blocks = 3, .measured = 1.35},
      {.m = 32, .n = 128, .k = 16, .threads = 128, .thread_m = 4, .thread_n = 8, .blocks = 3, .measured = 1.2},
      {.m = 32, .n = 32, .k = 16, .threads = 64, .thread_m = 4, .thread_n = 4, .blocks = 6, .measured = 0.95}};
  // At least 12 warps share an SM and hide each other's waits, where registers allow: not where loads are
  // many and small, nor for doubles.
  const bool lean = compute == Dtype::f32 && std::min(p.vector_a, p.vector_b) >= 4;
  const bool by_time = p.is_conv && compute == Dtype::f32;
  std::vector<Tiling> all;
  std::optional<std::size_t> first;
  double least = 0;
  for (Tiling t : kTiles) {
    const bool two_registers = compute == Dtype::f64 || p.sums;  // rounded sums have those of a group beside them
    if (two_registers && t.thread_m * t.thread_n > 32) continue;
    if (!lean) t.blocks = 1;
    t.tiles = p.groups * ceil_div(p.m, t.m) * ceil_div(p.n, t.n);
    t.splits = p.sums ? static_cast<int>(ceil_div(std::max<std::int64_t>(p.k, 1), Sums::kPart)) : splits_of(p, t);
    if (by_time) {
      const double seconds = judge.seconds(work_of(p, t, judge.sms).work);
      if (!first || seconds < least) first = all.size(), least = seconds;
    } else if (!first && t.tiles * most_splits(p, t) * t.threads >= kEnoughThreads / 2 && p.m * 2 > t.m &&
               p.n * 2 > t.n) {  // a tile twice as wide as the matrix works for nothing
      first = all.size();
    }
    all.push_back(t);
  }
  const auto chosen = all.begin() + static_cast<std::ptrdiff_t>(first.value_or(all.size() - 1));
  std::rotate(all.begin(), chosen, chosen + 1);
  return all;
}

}  // namespace nixie::cuda
