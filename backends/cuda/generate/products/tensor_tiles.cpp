// The tiles of products on tensor cores by mma.sync (gemm_sm80.cuh).
#include <algorithm>
#include <cmath>

#include "nixie/backends/cuda/generate/products/tiles.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/ops/elementwise.h"

namespace nixie::cuda {
namespace {

constexpr int kStepBytes = 64;            // of a line in one step
constexpr int kMostBlocks = 6;            // of an SM, that share sums
constexpr std::size_t kShortFormula = 4;  // its two parameters, an addition and a conversion

// Tiles of 64 x 64 sums a warp, and smaller ones; `blocks` as registers allow.
const Tiling kTiles[] = {
    {.m = 128, .n = 256, .threads = 256, .warps_n = 4, .blocks = 1},
    {.m = 256, .n = 128, .threads = 256, .warps_n = 2, .blocks = 1},
    {.m = 128, .n = 128, .threads = 128, .warps_n = 2, .blocks = 2},
    {.m = 256, .n = 64, .threads = 128, .warps_n = 1, .blocks = 2},
    {.m = 64, .n = 256, .threads = 128, .warps_n = 4, .blocks = 2},
    {.m = 128, .n = 64, .threads = 128, .warps_n = 2, .blocks = 3},
    {.m = 64, .n = 128, .threads = 128, .warps_n = 2, .blocks = 3},
    {.m = 64, .n = 64, .threads = 128, .warps_n = 2, .blocks = 3},
    {.m = 128, .n = 32, .threads = 128, .warps_n = 1, .blocks = 3},
    {.m = 32, .n = 128, .threads = 128, .warps_n = 4, .blocks = 3},
};

// One operand's pieces of a step: how many a thread has, and the instructions for each.
struct Pieces {
  double count = 0, instructions = 0;
  int registers = 0;  // that hold those on their way
};

Pieces pieces_of(int lines, int vector, bool ragged, bool along_k, const Product& p, const Tiling& t,
                 const Elements& elements) {
  const int width = std::min<int>(vector, static_cast<int>(16 / elements.bytes));
  const bool is_async = !ragged && !elements.converts && width * elements.bytes >= 4;
  Pieces pieces{.count = 1.0 * lines * t.k / t.threads / width};
  pieces.instructions = (ragged ? 45 : width * elements.bytes == 16 ? 6 : 14) + (along_k || p.one_tap ? 2 : 12);
  const int of_piece = ragged ? 11 : elements.converts ? std::max(1, width / 2) : 1;
  pieces.registers = static_cast<int>(is_async ? 0 : pieces.count * of_piece);
  return pieces;
}

// The clocks of the busiest SM: products, reads of L2 or of shared memory, or instructions, whichever take longest;
// where few blocks share it, their waits. The instructions' rates are the makers', the waits predictions.
double clocks_of(const Product& p, const Tiling& t, const Elements& elements, const Chip& chip, int resident,
                 double of_pieces, bool is_async) {
  constexpr double kReached = 0.61, kOfL2 = 0.55,
                   kNotHidden = 0.3;               // of a datasheet's operations; of L2; of reads behind products
  constexpr double kLatency = 900, kBegin = 2500;  // of a read, of a block's first products and last results
  constexpr double kAlone = 1.35;                  // a block's steps take longer without another's between them
  constexpr double kResults = 12, kPartBytes = 40, kInstructions = 2.5, kSharedBytes = 128;  // per clock
  const double depth = t.k, warps = t.threads / 32.0, lines = t.m + t.n, results = 1.0 * t.m * t.n;
  // A Hopper's rate is that of wgmma, of which mma.sync reaches a part.
  const double rate = chip.rates.mma / kReached * (chip.has_wgmma() ? Chip::kSyncOfWgmma : 1);
  const auto bytes = static_cast<double>(elements.bytes);
  const double times = elements.in_parts ? 3 : 1;  // products for each of the product's terms
  const double products = rate / (chip.sms * chip.clock) / bytes / times;
  const double of_warps = warps * (t.m * t.warps_n / warps + 1.0 * t.n / t.warps_n);  // lines that warps read
  const double mmas = times * results * depth * bytes / (16 * 8 * 32);
  // Four for each operand of a lane, which it takes apart, and the additions of a step's sums to those before.
  const double of_parts = elements.in_parts ? (4 * of_warps * depth + results) / 32 : 0;
  const double shared = (lines + of_warps) * kStepBytes / kSharedBytes;
  const double step = std::max({results * depth / products + kNotHidden * shared,
                                lines * kStepBytes / (kOfL2 * chip.l2_bytes_per_clock), shared,
                                (warps * of_pieces + 1.5 * mmas + of_parts) / kInstructions});
  const double alone = std::max((resident > 1 ? kAlone : 1) * step, kLatency / (is_async ? t.stages - 2 : 1) + 100);
  const std::int64_t blocks = ceil_div(t.tiles * t.splits, chip.sms);
  const double steps = std::ceil(static_cast<double>(ceil_div(p.k, t.k)) / t.splits);
  const auto wave = [&](std::int64_t together) {
    return together > 0 ? steps * std::max(static_cast<double>(together) * step, alone) + kBegin : 0;
  };
  double clocks = static_cast<double>(blocks / resident) * wave(resident) + wave(blocks % resident) +
                  static_cast<double>(blocks) * results / kResults;
  // Parts are stored; one block reads those of its group, and the last one the sums of groups.
  const int read = t.splits > kSplitGroup ? kSplitGroup + ceil_div(t.splits, kSplitGroup) : t.splits;
  if (t.splits > 1) clocks += results * 4 / kPartBytes * static_cast<double>(blocks + read) + 2 * kLatency;
  return clocks;
}

}  // namespace

std::int64_t shared_bytes_of(const Tiling& t, std::int64_t element_bytes) {
  return element_bytes * t.stages * (t.m + t.n) * t.k;
}

std::vector<Tiling> tensor_tilings(const Product& p, const Elements& elements, const Chip& chip) {
  const bool by_floats = elements.bytes == 4 && !(p.along_k_a && p.along_k_b);  // each with an address
  const int most = !by_floats ? 210 : elements.in_parts ? 150 : 105;            // registers beside addresses
  std::vector<Tiling> all;
  for (const Tiling& tile : kTiles) {
    Tiling t = tile;
    t.k = static_cast<int>(kStepBytes / elements.bytes), t.stages = 4;
    const Pieces a = pieces_of(t.m, p.vector_a, p.ragged_a, p.along_k_a, p, t, elements),
                 b = pieces_of(t.n, p.vector_b, p.ragged_b, p.along_k_b, p, t, elements);
    // What a window's positions take: in lines along k, or in pieces across it, more where a step is in two taps.
    const double across = p.k % t.k == 0 ? 1 : 2.5;
    const double of_a = a.count * (p.along_k_a     ? p.sums_pixels ? 2 : 3
                                   : p.sums_pixels ? 0
                                                   : across),
                 of_b = b.count * (p.along_k_b ? p.sums_pixels ? 4 : 1 : across);
    const int held = a.registers + b.registers;
    // Rounded sums of more than two products by mma.sync have those of a group beside them; long formulas, and pieces
    // on their way, leave them no more registers either.
    const bool keeps_groups = p.sums && (p.sums->every * elements.bytes > kStepBytes || held > 0 ||
                                         p.sums->merge->formula.body.size() > kShortFormula);
    const int sums = t.m * t.n / t.threads * (elements.in_parts || keeps_groups ? 2 : 1),
              places = p.one_tap ? 0 : static_cast<int>(of_a + of_b);
    if (held > 0) t.blocks = 1;
    if (keeps_groups) t.blocks = std::min(t.blocks, 2);
    if (elements.in_parts && (sums > 64 || places > 16)) t.blocks = 2;
    if (by_floats || std::max(a.count, b.count) > 8) t.blocks = std::min(t.blocks, 2);
    const bool is_left = all.empty() && &tile == std::end(kTiles) - 1;  // where none fits: it may spill
    if (sums + sums / 2 + held + places > most - (held > 0 ? 10 : 0) && !is_left) continue;
    if (shared_bytes_of(t, elements.bytes) > chip.block_shared_bytes) continue;
    constexpr std::int64_t reserved = 1024;  // of each block's shared memory
    // Tiles of 32 sums a thread take less than 128 registers, which leaves room for one block more than they demand.
    const int resident = std::min<int>(
        held > 0                            ? std::max(t.blocks, 2)
        : sums <= 32 && elements.bytes == 2 ? t.blocks + 1
                                            : t.blocks,
        static_cast<int>((chip.block_shared_bytes + reserved) / (shared_bytes_of(t, elements.bytes) + reserved)));
    t.tiles = p.groups * ceil_div(p.m, t.m) * ceil_div(p.n, t.n);
    const std::int64_t steps = std::max<std::int64_t>(1, ceil_div(p.k, t.k)),
                       least = std::max<std::int64_t>(1, ceil_div(p.k, kMostTensorTerms));
    std::optional<Tiling> best;
    // Rounded sums have parts of their own.
    const std::int64_t first = p.sums ? ceil_div(std::max<std::int64_t>(p.k, 1), Sums::kPart) : least;
    const std::int64_t most_parts =
        p.sums ? first
               : std::max(least, std::min<std::int64_t>(kMostBlocks * chip.sms / std::max<std::int64_t>(t.tiles, 1),
                                                        steps / 4));
    for (std::int64_t wanted = first; wanted <= most_parts; wanted += std::max<std::int64_t>(1, wanted / 8)) {
      t.splits = static_cast<int>(p.sums ? first : ceil_div(steps, ceil_div(steps, wanted)));  // none is empty
      t.clocks =
          clocks_of(p, t, elements, chip, resident, a.count * a.instructions + b.count * b.instructions, held == 0);
      if (!best || t.clocks < best->clocks) best = t;
    }
    all.push_back(*best);
  }
  std::ranges::stable_sort(all, {}, &Tiling::clocks);
  return all;
}

}  // namespace nixie::cuda
