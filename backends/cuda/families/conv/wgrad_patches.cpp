// Chooses patches and tiles of filter gradients by an estimate, in clocks.
#include "nixie/backends/cuda/families/conv/wgrad_patches.h"

#include <algorithm>

#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr int kLine = 128;                   // of L2: what a place takes, whatever its channels
constexpr int kStageOverhead = 64;           // clocks
constexpr int kLeastStages = 3;              // of a ring, that hide the latency of memory
constexpr int kMostRows = 16;                // of a patch: steps of more leave too few registers
constexpr std::int64_t kMostStep = 0x3FFF0;  // bytes between parts of an operand that its descriptor has room for

std::int64_t tiles_of(const ConvProblem& conv, const PatchTile& tile) {
  return patch_tile_rows(conv, tile) * patch_tile_columns(conv, tile);
}

std::int64_t part_bytes(const PatchTile& tile) { return std::int64_t{4} * tile.rows() * tile.patch.lines * tile.n(); }

// The longest of three: products of 64 x n take n / 2 clocks per 16 terms; shared memory delivers their operands and
// takes the next stage's, at less than its rate as both meet; L2 delivers lines.
double stage_clocks(const ConvProblem& conv, const PatchTile& tile, const Chip& chip) {
  constexpr double kSharedBytesPerClock = 115;
  const int n = tile.n(), filters = static_cast<int>(round_up(std::min(tile.rows(), conv.filters / conv.groups), 64)),
            gradients = tile.patch.high * 8 * filters / 64, places = tile.patch.places();
  const double times = tile.consumers * tile.mma_m * (tile.patch.high / 2), products = times * n / 2,
               shared = (times * (64 + n) * 32 + gradients * 128 + places * 2 * tile.slice) / kSharedBytesPerClock,
               l2 = 1.0 * kLine * (gradients + places) / chip.l2_bytes_per_clock;
  return std::max({products, shared, l2}) + kStageOverhead;
}

// As if blocks shared the work evenly; parts go to L2 and come back.
double even_clocks(const ConvProblem& conv, const PatchTile& tile, const Chip& chip) {
  const std::int64_t tiles = tiles_of(conv, tile);
  const double parts =
      tiles % chip.sms == 0 ? 0 : 2.0 * static_cast<double>(part_bytes(tile)) / chip.l2_bytes_per_clock;
  return static_cast<double>(ceil_div(tiles * patches_of(conv, tile.patch), chip.sms)) *
             stage_clocks(conv, tile, chip) +
         parts;
}

// Clocks of the busiest block, and of merging parts.
double scheduled_clocks(const ConvProblem& conv, const PatchTile& tile, const Chip& chip, int epilogue_bytes) {
  const WgradSchedule schedule = patch_schedule(conv, tile, chip);
  const double stage = stage_clocks(conv, tile, chip), epilogue = static_cast<double>(part_bytes(tile)) / 4 *
                                                                  epilogue_bytes /
                                                                  static_cast<double>(chip.memory_bytes_per_clock());
  double longest = 0;
  for (std::size_t block = 0; block + 1 < schedule.first_items.size(); ++block) {
    double clocks = 0;
    for (std::int32_t i = schedule.first_items[block]; i < schedule.first_items[block + 1]; ++i)
      clocks += schedule.items[at(i)].count * stage + (schedule.items[at(i)].slot < 0 ? epilogue : 0);
    longest = std::max(longest, clocks);
  }
  return longest +
         2.0 * static_cast<double>(part_bytes(tile)) * schedule.slots / (1.0 * chip.l2_bytes_per_clock * chip.sms);
}

// Calls act(tile) for tiles without a shape of patches: runs and lines that registers hold.
template <class Act>
void for_each_tile(const ConvProblem& conv, Act act) {
  struct Consumers {
    int count, lines;
  };
  const int channels = conv.channels / conv.groups;
  for (const int slice : {64, 32, 16}) {
    if (slice > 16 && slice / 2 >= channels) continue;
    for (const bool down : {false, true}) {
      const int along = down ? conv.r : conv.s, beside = down ? conv.s : conv.r;
      for (int run = 1; run <= along + 1 && run * slice <= 256; ++run)
        for (const auto [count, lines] : {Consumers{3, 3}, {2, 2}, {1, 1}, {2, 1}, {3, 1}})
          for (const int mma_m : {1, 2}) {
            const int sums = mma_m * run * slice / 2;
            if (run * slice % 32 != 0 || lines > beside || sums > (count == 3 ? 96 : 128)) continue;
            act(PatchTile{.patch = {.taps_h = conv.r,
                                    .taps_w = conv.s,
                                    .dilation_h = conv.dilation[0],
                                    .dilation_w = conv.dilation[1],
                                    .down = down,
                                    .run = run,
                                    .lines = lines},
                          .consumers = count,
                          .mma_m = mma_m,
                          .slice = slice});
          }
    }
  }
}

bool fits(const ConvProblem& conv, const PatchTile& tile) {
  const WgradPatch& patch = tile.patch;
  return patch.rows() <= 256 && patch.columns() <= 256 &&
         std::int64_t{2} * tile.slice * std::max({patch.pitch(), patch.run_step()}) <= kMostStep &&
         tile.stages >= kLeastStages && patch_tile_rows(conv, tile) <= kMostTileRows &&
         patch_tile_columns(conv, tile) <= kMostTileColumns;
}

bool has_patches(const ConvProblem& conv) {
  return conv.role == ConvRole::filter_grad && conv.stride == std::array{1, 1} && conv.r * conv.s > 1 &&
         conv.products() == 1 && conv.row_channels == 0;
}

}  // namespace

ConvProblem turned(const ConvProblem& conv) {
  ConvProblem other = conv;
  std::swap(other.channels, other.filters);
  std::swap(other.height, other.p);
  std::swap(other.width, other.q);
  other.pad = {(conv.r - 1) * conv.dilation[0] - conv.pad[0], (conv.s - 1) * conv.dilation[1] - conv.pad[1]};
  return other;
}

std::int64_t PatchTile::stage_bytes() const {
  return std::int64_t{rows()} * patch.high * 16 + round_up(std::int64_t{2} * slice * patch.places(), 1024);
}

std::int64_t patch_tile_rows(const ConvProblem& conv, const PatchTile& tile) {
  return conv.groups * ceil_div(conv.filters / conv.groups, tile.rows());
}

std::int64_t patch_tile_columns(const ConvProblem& conv, const PatchTile& tile) {
  return tile.patch.tiles() * ceil_div(conv.channels / conv.groups, tile.slice);
}

std::int64_t patches_of(const ConvProblem& conv, const WgradPatch& patch) {
  return ceil_div(conv.images, patch.together) * patch.down_to(conv.p) * patch.across(conv.q);
}

namespace {

// Without what the schedule adds to its clocks. Turned, places of two rows of results have no registers.
std::optional<PatchTile> best_patch(const ConvProblem& conv, bool turned, const Chip& chip) {
  std::optional<PatchTile> best;
  for_each_tile(conv, [&](PatchTile tile) {
    if (turned && tile.mma_m > 1) return;
    tile.turned = turned;
    const std::int64_t room = dynamic_shared_bytes(chip) - 1024 - tile.consumers * 8192;
    for (const int together : {1, 2, 4, 8})
      for (int high = 4; high <= kMostRows; high += 2) {
        if (high > round_up(conv.p, 2) && high > 4) break;
        tile.patch.together = together, tile.patch.high = high;
        tile.stages = static_cast<int>(std::min<std::int64_t>(8, room / tile.stage_bytes()));
        if (!fits(conv, tile)) continue;
        tile.clocks = even_clocks(conv, tile, chip);
        if (!best || tile.clocks < best->clocks) best = tile;
      }
  });
  return best;
}

}  // namespace

std::optional<PatchTile> gradient_patch(const ConvProblem& conv, const Chip& chip, int epilogue_bytes, bool may_turn) {
  if (!has_patches(conv)) return {};
  const auto filled = [&](int filters) {
    return static_cast<double>(filters) / static_cast<double>(round_up(filters, 64 * conv.groups));
  };
  std::optional<PatchTile> best = best_patch(conv, false, chip);
  if (may_turn && filled(conv.filters) < filled(conv.channels)) {
    auto other = best_patch(turned(conv), true, chip);
    if (other && (!best || other->clocks < best->clocks)) best = other;
  }
  if (best) best->clocks = scheduled_clocks(best->turned ? turned(conv) : conv, *best, chip, epilogue_bytes);
  return best;
}

WgradSchedule patch_schedule(const ConvProblem& conv, const PatchTile& tile, const Chip& chip) {
  return schedule_wgrad(static_cast<int>(patch_tile_rows(conv, tile)), static_cast<int>(patch_tile_columns(conv, tile)),
                        static_cast<int>(patches_of(conv, tile.patch)), chip.sms,
                        static_cast<int>(kMostTensorTerms / (8 * tile.patch.high)));
}

}  // namespace nixie::cuda
