// The tiles of 16-bit convolutions on sm_90a and an estimate of each, in clocks: the fastest runs, unless a line of
// tune/*.tsv names another. f32: conv_ffma.cpp; other chips: generate/products/tiles.h.
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr Tile kForwardTiles[] = {{2, 1, 256},       {2, 2, 128},       {3, 1, 128},       {2, 1, 192},
                                  {2, 1, 128},       {2, 2, 96},        {2, 2, 64},        {2, 1, 96},
                                  {2, 1, 64},        {1, 1, 64},        {2, 1, 48},        {2, 1, 32},
                                  {2, 2, 128, true}, {2, 1, 256, true}, {2, 1, 192, true}, {2, 1, 128, true},
                                  {2, 2, 96, true},  {2, 2, 64, true},  {2, 1, 64, true}};
// The widest tile of each kind, of which a layer also has one whose columns its filters fill.
constexpr Tile kWidestTiles[] = {{2, 1, 256}, {2, 2, 128},       {3, 1, 128},
                                 {1, 1, 256}, {2, 1, 256, true}, {2, 2, 128, true}};
constexpr Tile kGradientTiles[] = {{2, 1, 256}, {2, 2, 128}, {2, 1, 192}, {3, 1, 128},      {2, 1, 160}, {2, 2, 96},
                                   {2, 1, 128}, {2, 1, 96},  {1, 1, 256}, {1, 1, 192},      {1, 1, 128}, {2, 1, 64},
                                   {1, 1, 96},  {1, 1, 64},  {1, 1, 32},  {2, 2, 128, true}};

// Three products keep three times the sums in registers.
bool fits(const Tile& tile, int products) {
  return products == 1 || (tile.consumers < 3 && tile.mma_m * tile.n <= 128);
}

// Sums that leave the tensor cores are those of 64 rows, beside those of the tile, and of its parts before.
bool fits(const Tile& tile, const ConvProblem& conv) {
  constexpr int kMostSums = 192;
  if (conv.promotes())
    return tile.consumers < 3 && !tile.in_turn &&
           ((conv.has_parts() ? 2 : 1) * tile.mma_m + 1) * tile.n / 2 <= kMostSums;
  return fits(tile, conv.products());
}

std::int64_t stage_bytes(const Tile& tile, std::int64_t rows_b, int terms, int products) {
  return planes_of(products) * (tile.rows() + rows_b) * terms * 2;
}

// Clocks of a stage's products: those of 64 x n take n / 2 clocks per 16 terms, or longer if shared memory delivers the
// operands more slowly.
std::int64_t product_clocks(const Tile& tile, int terms, int products) {
  return products * tile.sharing() * tile.mma_m * (terms / 16) * std::max(tile.n / 2, 16 + tile.n / 4);
}

// Clocks of one stage of `terms` along the reduction: of its products, or of reading its lines of 128 bytes from L2.
std::int64_t stage_clocks(const Tile& tile, std::int64_t lines, int terms, int products, const Chip& chip) {
  return std::max<std::int64_t>(product_clocks(tile, terms, products),
                                planes_of(products) * lines * 128 / chip.l2_bytes_per_clock);
}

// What windows of one pixel take, in clocks, fitted to 6,700 times of 219 layers in fp16 in all roles on an H200: the
// choice costs 2 % of the best tile's time forward, 0.9 % in filter gradients. Only tiles are chosen by it: forms,
// which have windows of any size, are compared by the clocks that were fitted to all windows (Tile::price).
struct Points {
  static constexpr double kLine = 2, kGradientLine = 1.59;         // of a line of 128 bytes that a row of a box touches
  static constexpr double kMisplaced = 1, kGradientMisplaced = 3;  // of a row that begins off a sector of 32 bytes
  static constexpr double kStage = 285, kGradientStage = 334;      // at least, of a stage of one consumer
  static constexpr double kLatency = 1050;                         // of a box, for which all stages but two may wait
  static constexpr double kMultiply = 14.4;                        // of starting the products of 64 rows and 16 terms
  static constexpr double kShared = 1.114;                         // a gradient's stage, if consumers share it
  static constexpr double kTile = 33;                              // of beginning a tile
  static constexpr double kResident = 3.8;                         // of a row of filters that stays
  static constexpr double kStored = 4.9, kStoredInTurn = 6.6;      // of a line of results
  static constexpr double kPairs = 2800, kPairsStage = 83;     // of blocks that wait for each other, and in each stage
  static constexpr double kSplit = 1800, kPart = 7.66 / 2635;  // of adding parts, of each number of a part
  static constexpr double kMeet = 5130;                        // of a cluster's exchange
  static constexpr double kMemory = 1.28;                      // of Chip's, in filter gradients
};

bool is_point(const ConvProblem& conv) { return conv.r * conv.s == 1; }

// Whether a tile is for windows of one pixel alone: those of others were chosen without it.
bool is_for_points(const Tile& tile) { return tile.consumers == 1 && (tile.n == 128 || tile.n == 32); }

// Whether estimates count each slice of a pixel as a line, as it is read: in groups and windows of one pixel. Those of
// other windows were fitted to bytes, and compete with patches.
bool counts_lines(const ConvProblem& conv) { return is_point(conv) || conv.groups > 1; }

std::int64_t gradient_lines(const ConvProblem& conv, const Tile& tile) {
  return tile.rows() + (counts_lines(conv) ? tile.n * 64 / gradient_slice(conv) : tile.n);
}

// How many lines of L2 `width` channels, from a multiple of them on, touch in the mean, where a pixel has `channels`.
double lines_of(std::int64_t channels, std::int64_t width) {
  const auto step = std::gcd(2 * std::gcd(channels, width), std::int64_t{128});  // between places where rows begin
  return 1 + static_cast<double>(std::max<std::int64_t>(0, 2 * width - step)) / 128;
}

// Clocks of a stage of a window of one pixel whose products and reads take so many.
double point_stage_clocks(const Tile& tile, double products, double reads, double least) {
  return std::max({products, reads, tile.sharing() == 1 ? least : 0});
}

// Clocks of a whole tile's epilogue, in which an SM has its share of what memory gives.
std::int64_t epilogue_clocks(const Tile& tile, int epilogue_bytes, const Chip& chip) {
  return std::int64_t{1} * tile.rows() * tile.n * epilogue_bytes / chip.memory_bytes_per_clock();
}

// Whether all blocks have tiles whose epilogue takes longer than their products: memory, which blocks share, is what
// these wait for, and parts would add to it.
bool waits_for_memory(const ConvProblem& conv, const Tile& tile, const Chip& chip, int epilogue_bytes) {
  const std::int64_t stages = ceil_div(std::int64_t{1} * conv.images * conv.p * conv.q, 64);
  return gradient_rows(conv, tile) * ceil_div(gradient_columns(conv), tile.n) >= chip.sms &&
         epilogue_clocks(tile, epilogue_bytes, chip) >
             stages * stage_clocks(tile, gradient_lines(conv, tile), 64, conv.products(), chip);
}

// Stages and epilogues of the busiest block.
std::int64_t longest_block(const WgradSchedule& schedule, std::int64_t stage, std::int64_t epilogue, bool in_turn) {
  std::int64_t longest = 0;
  for (std::size_t block = 0; block + 1 < schedule.first_items.size(); ++block) {
    std::int64_t products = 0, epilogues = 0;
    for (std::int32_t i = schedule.first_items[block]; i < schedule.first_items[block + 1]; ++i) {
      products += schedule.items[at(i)].count * stage;
      epilogues += epilogue;
    }
    const std::int64_t under = in_turn ? std::min(products, epilogues) : 0;
    longest = std::max(longest, products + epilogues - under);
  }
  return longest;
}

// Clocks of a stage of a filter gradient of one pixel. Boxes without filters or channels are not read.
double gradient_stage_clocks(const Tile& tile, const ConvProblem& conv) {
  const auto of_rows = [&](std::int64_t all, int slice, std::int64_t tiles) {
    const std::int64_t channels = all / conv.groups;
    const double rows = 64.0 * static_cast<double>(ceil_div(channels, slice)) / static_cast<double>(tiles);
    return rows * (Points::kGradientLine * lines_of(all, std::min<std::int64_t>(channels, slice)) +
                   (all % 16 ? Points::kGradientMisplaced : 0));
  };
  const double reads = of_rows(conv.filters, 64, gradient_rows(conv, tile) / conv.groups) +
                       of_rows(conv.channels, gradient_slice(conv), ceil_div(gradient_columns(conv), tile.n));
  const auto products = static_cast<double>(product_clocks(tile, 64, conv.products()));
  return point_stage_clocks(tile, products, planes_of(conv.products()) * reads, Points::kGradientStage) *
         (tile.sharing() > 1 ? Points::kShared : 1);
}

// Sets the clocks of the busiest block, and of partial tiles that are written to L2 and read again.
void estimate_gradient(Tile& tile, const ConvProblem& conv, int epilogue_bytes, const Chip& chip) {
  const WgradSchedule schedule = gradient_schedule(conv, tile, chip, epilogue_bytes);
  const std::int64_t epilogue = waits_for_memory(conv, tile, chip, epilogue_bytes)
                                    ? epilogue_clocks(tile, epilogue_bytes, chip)
                                    : 0,
                     any_stage = stage_clocks(tile, gradient_lines(conv, tile), 64, conv.products(), chip),
                     part_bytes = std::int64_t{4} * schedule.slots * tile.rows() * tile.n;
  tile.price = tile.clocks = longest_block(schedule, any_stage, epilogue, tile.in_turn) +
                             2 * part_bytes / (std::int64_t{chip.l2_bytes_per_clock} * chip.sms);
  if (!is_point(conv)) return;
  const double bytes =
                   planes_of(conv.products()) * 2.0 * conv.images * conv.p * conv.q * (conv.channels + conv.filters),
               memory = bytes / (static_cast<double>(chip.memory_bytes_per_clock() * chip.sms) * Points::kMemory);
  const auto stage = static_cast<std::int64_t>(gradient_stage_clocks(tile, conv));
  const auto of_item = epilogue + static_cast<std::int64_t>(tile.splits > 1 ? Points::kMeet : 0);
  double clocks = std::max(memory, static_cast<double>(longest_block(schedule, stage, of_item, tile.in_turn)));
  if (!schedule.splits.empty()) clocks += Points::kSplit + Points::kPart * schedule.slots * tile.rows() * tile.n;
  tile.clocks = static_cast<std::int64_t>(clocks);
  if (tile.splits > 1 || is_for_points(tile))
    tile.price = std::numeric_limits<std::int64_t>::max();  // forms were fitted without them
}

int stages_in(std::int64_t room, const Tile& tile, std::int64_t rows_b, int terms, int products) {
  return static_cast<int>(std::min<std::int64_t>(8, room / stage_bytes(tile, rows_b, terms, products)));
}

// The largest slice that divides the channels; 64 where none does.
int exact_slice(std::int64_t channels) {
  return channels % 64 == 0 || channels % 16 != 0 ? 64 : channels % 32 ? 16 : 32;
}

// A pixel's slice is a line of L2 whether it has 64 channels or 16, so that slices that divide the channels are bound
// by lines; wider ones multiply zeros instead, by tiles of at most 128 filters mostly. `exact` unless another gains.
int fewest_lines(std::int64_t channels, std::int64_t filters, int exact) {
  constexpr double kClocksOfLine = 2.6, kLeastGain = 0.8;
  const auto clocks = [&](int slice) {
    const double products = slice / 16 * static_cast<double>(std::min<std::int64_t>(filters, 128)) / 128;
    return static_cast<double>(ceil_div(channels, slice)) * std::max(products, kClocksOfLine);
  };
  int best = exact;
  for (const int slice : {32, 64})
    if (clocks(slice) < kLeastGain * clocks(best)) best = slice;
  return best;
}

bool fits_gradient(const Tile& tile, const ConvProblem& conv) {
  const int slice = gradient_slice(conv);
  if (!fits(tile, conv.products()) || tile.n % slice != 0 || tile.n / slice > 8) return false;
  if (is_for_points(tile) && !is_point(conv)) return false;
  if (conv.row_channels > 0 && tile.consumers == 3) return false;  // addresses of packed rows need the registers
  return gradient_rows(conv, tile) <= kMostTileRows && ceil_div(gradient_columns(conv), tile.n) <= kMostTileColumns;
}

std::vector<Tile> sorted(std::vector<Tile> tiles) {
  std::stable_sort(tiles.begin(), tiles.end(), [](const Tile& a, const Tile& b) { return a.clocks < b.clocks; });
  return tiles;
}

}  // namespace

std::int64_t dynamic_shared_bytes(const Chip& chip) { return chip.block_shared_bytes - 2048; }

std::int64_t gradient_rows(const ConvProblem& conv, const Tile& tile) {
  return std::int64_t{conv.groups} * ceil_div(conv.filters / conv.groups, tile.rows());
}

// A part of the last slice is empty where none divides the channels. Packed rows have slices that divide them.
int gradient_slice(const ConvProblem& conv) {
  const int channels = conv.channels / conv.groups, exact = channels % 16 == 0 ? exact_slice(channels) : 16;
  return conv.row_channels > 0 ? exact : fewest_lines(channels, conv.filters / conv.groups, exact);
}

std::int64_t gradient_columns(const ConvProblem& conv) {
  return std::int64_t{1} * conv.r * conv.s * round_up(conv.channels / conv.groups, gradient_slice(conv));
}

// Windows of one pixel read fewer boxes rather than no zeros: 64 channels where 32 would divide them gain 4 %.
int forward_slice(const ConvProblem& conv) {
  const int channels = conv.channels / conv.groups;
  if ((is_point(conv) && channels > 32) || conv.sums_every > 0) return 64;
  return fewest_lines(channels, conv.filters / conv.groups, exact_slice(channels));
}

int planes_of(int products) { return products == 3 ? 2 : 1; }

ForwardLayer forward_layer(const ConvProblem& conv) {
  ForwardLayer layer{.channels = conv.channels / conv.groups,
                     .filters = conv.filters / conv.groups,
                     .groups = conv.groups,
                     .p = conv.p,
                     .q = conv.q,
                     .pad = conv.pad};
  layer.slice = forward_slice(conv);
  if (conv.role == ConvRole::input_grad) {
    layer.transposed = true, layer.slice = 64;
    std::swap(layer.channels, layer.filters);
    layer.p = conv.height, layer.q = conv.width;
    layer.pad = {(conv.r - 1) * conv.dilation[0] - conv.pad[0], (conv.s - 1) * conv.dilation[1] - conv.pad[1]};
  }
  layer.pixels = std::int64_t{1} * conv.images * layer.p * layer.q;
  const std::int64_t slices = std::int64_t{1} * ceil_div(layer.channels, layer.slice) * conv.r * conv.s;
  layer.stages = ceil_div(slices * layer.slice, 64);
  layer.stage_terms = static_cast<int>(ceil_div(slices, layer.stages)) * layer.slice;
  return layer;
}

std::int64_t forward_blocks(const ForwardLayer& layer, const Tile& tile, const Chip& chip) {
  const std::int64_t together = tile.resident ? layer.columns(tile) : tile.together();
  return chip.sms / together * together;
}

std::int64_t resident_bytes(const ForwardLayer& layer, const Tile& tile) {
  return tile.resident ? layer.stages * layer.filter_rows(tile) * layer.stage_terms * 2 : 0;
}

std::int64_t forward_epilogue_clocks(const Tile& tile) {
  return tile.rows() * tile.n / (tile.consumers == 3 ? 16 : tile.in_turn ? 6 : 12);
}

// In turn, a block's products wait for each other, and a consumer's products for its own epilogues.
std::int64_t forward_clocks(const ForwardLayer& layer, const Tile& tile, std::int64_t epilogue, const Chip& chip) {
  const std::int64_t waves = ceil_div(layer.tiles(tile), forward_blocks(layer, tile, chip));
  if (!tile.in_turn) return waves * (tile.products + epilogue);
  return std::max(waves * tile.products + epilogue, ceil_div(waves, 2) * (tile.products + epilogue));
}

// Whether a block reads filters twice at least, they leave room for enough images, and blocks that keep to a column
// take about as many waves as others.
bool may_reside(const ForwardLayer& layer, Tile tile, std::int64_t room, const Chip& chip) {
  tile.resident = true;
  const std::int64_t blocks = forward_blocks(layer, tile, chip), tiles = layer.tiles(tile),
                     images = tile.rows() * layer.stage_terms * 2;
  return blocks > 0 && tiles >= 2 * blocks && ceil_div(tiles, blocks) * 16 <= ceil_div(tiles, chip.sms) * 17 &&
         resident_bytes(layer, tile) + 4 * images <= room;
}

// The tile with its terms shared out over blocks that would have none, where that is faster: parts go to memory and
// come back, and the last of a tile waits for the others.
std::optional<Tile> split(const Tile& whole, const ForwardLayer& layer, const Chip& chip) {
  constexpr std::int64_t kMost = 16, kLeastStages = 8, kMeeting = 2000, kLatency = 700;
  const std::int64_t tiles = layer.tiles(whole), stage = whole.products / layer.stages,
                     epilogue = forward_epilogue_clocks(whole),
                     part = std::int64_t{4} * whole.rows() * whole.n / chip.l2_bytes_per_clock,
                     chunks =
                         ceil_div(whole.mma_m * whole.n / 2, 16);  // of a thread's sums, loaded of two parts at once
  if (whole.resident || tiles >= chip.sms) return {};
  Tile best = whole;
  for (int splits = 2; splits <= std::min(kMost, layer.stages / kLeastStages); ++splits) {
    const std::int64_t share = ceil_div(layer.stages, splits), waves = ceil_div(tiles * splits, chip.sms),
                       adding = splits * part + ceil_div(splits, 2) * chunks * kLatency,
                       clocks = waves * (share * stage + part) + adding + epilogue + kMeeting;
    if ((splits - 1) * share < layer.stages && clocks < best.clocks)
      best.splits = splits, best.clocks = clocks, best.price = std::min(best.price, clocks);
  }
  return best.splits > 1 ? std::optional(best) : std::nullopt;
}

namespace {

// The tile by clusters of two blocks, if these leave no parts. Pairs of SMs are what any chip has; clusters of four or
// eight do not fit all of its SMs.
std::optional<Tile> in_pairs(Tile tile, const ConvProblem& conv, const Chip& chip, int epilogue_bytes) {
  const std::int64_t tiles = gradient_rows(conv, tile) * ceil_div(gradient_columns(conv), tile.n);
  if (!is_point(conv) || conv.products() > 1 || tile.in_turn || tiles >= chip.sms) return {};
  if (tile.stages * stage_bytes(tile, tile.n, 64, 1) < std::int64_t{4} * tile.rows() * tile.n) return {};
  tile.splits = 2;
  const WgradSchedule schedule = gradient_schedule(conv, tile, chip, epilogue_bytes);
  if (!schedule.splits.empty() || schedule.items.front().count == 0) return {};
  estimate_gradient(tile, conv, epilogue_bytes, chip);
  return tile;
}

// The tile with estimates of its products, and of all of the kernel.
Tile estimated(Tile tile, const ConvProblem& conv, const ForwardLayer& layer, const Chip& chip) {
  // Filters count for each tile, resident or not: else small tiles, whose epilogues overlap less, would seem as fast.
  // Turned ones come in boxes of 64, which begin where their tile does.
  const auto filter_rows = static_cast<double>(layer.filter_rows(tile));
  const std::int64_t step = layer.transposed && layer.filters > tile.n ? tile.n : 64;  // of their boxes
  const int slices = layer.stage_terms / layer.slice;
  constexpr double kOffSector = 1.7;  // lines of a row of a narrow group that begins off a sector of 32 bytes
  const bool off_sector = conv.groups > 1 && layer.channels < 64 && layer.channels % 16 != 0;
  const double lines_of_row = counts_lines(conv) ? slices * (off_sector ? kOffSector : 1) : layer.stage_terms / 64.0;
  const auto any_lines = static_cast<std::int64_t>(lines_of_row * (tile.rows() + filter_rows * lines_of(step, 64)));
  tile.products = layer.stages * stage_clocks(tile, any_lines, layer.stage_terms, conv.products(), chip);
  tile.clocks = forward_clocks(layer, tile, forward_epilogue_clocks(tile), chip);
  tile.price = tile.in_turn ? std::numeric_limits<std::int64_t>::max() : tile.clocks;  // forms were fitted without them
  if (!is_point(conv)) return tile;
  const auto of_row = [&](std::int64_t channels, std::int64_t begins) {
    return Points::kLine * lines_of(begins, std::min<std::int64_t>(channels, layer.slice)) +
           (begins % 16 ? Points::kMisplaced : 0);
  };
  const double of_images = of_row(layer.channels, layer.channels), images = tile.rows() * of_images,
               filters = tile.resident ? 0
                                       : filter_rows / tile.together() *
                                             (layer.transposed ? of_row(layer.filters, std::gcd(layer.filters, step))
                                                               : of_images),
               reads = planes_of(conv.products()) * slices * (images + filters),
               products = static_cast<double>(product_clocks(tile, layer.stage_terms, conv.products())) +
                          Points::kMultiply * conv.products() * tile.rows() / 64 * layer.stage_terms / 16,
               waits = Points::kLatency / std::max(1, tile.stages - 2),
               stage = std::max(point_stage_clocks(tile, products, reads, Points::kStage), waits) +
                       (tile.paired ? Points::kPairsStage : 0),
               epilogue = tile.rows() * lines_of(layer.filters, std::min(layer.filters, tile.n)) *
                          (tile.in_turn ? Points::kStoredInTurn : Points::kStored),
               resident =
                   tile.resident ? Points::kResident * static_cast<double>(layer.stages) * slices * filter_rows : 0;
  tile.products = static_cast<std::int64_t>(Points::kTile + static_cast<double>(layer.stages) * stage);
  tile.clocks = forward_clocks(layer, tile, static_cast<std::int64_t>(epilogue), chip) +
                static_cast<std::int64_t>(resident + (tile.paired ? Points::kPairs : 0));
  return tile;
}

// The tile by pairs of blocks that share filters, and so read fewer rows: a gain where rows begin off sectors alone.
std::optional<Tile> sharing_filters(Tile tile, const ConvProblem& conv, const ForwardLayer& layer, const Chip& chip) {
  if (!is_point(conv) || layer.channels % 16 == 0 || tile.resident || tile.n % 16 != 0) return {};
  tile.paired = true;
  tile = estimated(tile, conv, layer, chip);
  tile.price = std::numeric_limits<std::int64_t>::max();  // forms were fitted without them
  return tile;
}

std::int64_t fastest(const std::vector<Tile>& tiles) { return std::ranges::min(tiles, {}, &Tile::clocks).clocks; }

// Every tile has the least price of those by which forms were fitted.
std::vector<Tile> priced(std::vector<Tile> tiles) {
  std::int64_t price = std::numeric_limits<std::int64_t>::max();
  for (const Tile& tile : tiles) price = std::min(price, tile.price);
  for (Tile& tile : tiles) tile.price = price;
  return tiles;
}

// The tile whole, by pairs of blocks, and with its terms shared out, where that may be faster. An epilogue hides better
// behind the products of two other warpgroups.
void add_ways(std::vector<Tile>& tiles, Tile tile, const ConvProblem& conv, const ForwardLayer& layer, const Chip& chip,
              bool may_split) {
  if (!fits(tile, conv) || (tile.in_turn && conv.products() > 1)) return;
  const std::int64_t room = dynamic_shared_bytes(chip) - tile.consumers * 16384;
  tile.resident = conv.products() == 1 && may_reside(layer, tile, room, chip);
  tile.stages = stages_in(room - resident_bytes(layer, tile), tile, tile.resident ? 0 : layer.filter_rows(tile),
                          layer.stage_terms, conv.products());
  tile = estimated(tile, conv, layer, chip);
  tiles.push_back(tile);
  if (const auto pairs = sharing_filters(tile, conv, layer, chip)) tiles.push_back(*pairs);
  if (!may_split || conv.products() > 1 || tile.in_turn) return;
  if (const auto parts = split(tile, layer, chip)) tiles.push_back(*parts);
}

// The fastest of those tiles of a kind whose columns share the layer's filters equally.
std::vector<Tile> filled(const Tile& widest, const ConvProblem& conv, const ForwardLayer& layer, const Chip& chip,
                         bool may_split) {
  constexpr int kNarrowest = 32, kTried = 64;                   // columns of a tile, numbers of tiles across
  const int step = conv.pairs_of && !conv.promotes() ? 16 : 8;  // of widths of products
  std::vector<Tile> best, of_width;
  const int fewest = ceil_div(layer.filters, widest.n);
  for (int across = fewest; across < fewest + kTried; ++across) {
    Tile tile = widest;
    tile.n = round_up(ceil_div(layer.filters, across), step);
    if (tile.n < kNarrowest && across > 1) break;
    of_width.clear();
    add_ways(of_width, tile, conv, layer, chip, may_split);
    if (of_width.empty() || (!best.empty() && fastest(of_width) >= fastest(best))) continue;
    best = of_width;
    for (Tile& each : best) each.price = std::numeric_limits<std::int64_t>::max();  // forms were fitted without them
  }
  return best;
}

}  // namespace

// The tile whose last wave ends first.
std::vector<Tile> forward_tiles(const ConvProblem& conv, const Chip& chip, bool may_split) {
  const ForwardLayer layer = forward_layer(conv);
  std::vector<Tile> tiles;
  for (const Tile& tile : kForwardTiles)
    if (tile.n % 64 == 0 || layer.filters <= tile.n) add_ways(tiles, tile, conv, layer, chip, may_split);
  for (const Tile& widest : kWidestTiles) {
    const std::vector<Tile> more = filled(widest, conv, layer, chip, may_split);
    std::ranges::copy_if(more, std::back_inserter(tiles), [&](const Tile& tile) {
      return std::ranges::none_of(tiles, [&](const Tile& other) { return other.name() == tile.name(); });
    });
  }
  return sorted(priced(std::move(tiles)));
}

WgradSchedule gradient_schedule(const ConvProblem& conv, const Tile& tile, const Chip& chip, int epilogue_bytes) {
  const std::int64_t stages = ceil_div(std::int64_t{1} * conv.images * conv.p * conv.q, 64);
  const std::int64_t rows = gradient_rows(conv, tile), columns = ceil_div(gradient_columns(conv), tile.n);
  const bool cut = tile.splits == 1 && !waits_for_memory(conv, tile, chip, epilogue_bytes);
  const WgradSchedule schedule =
      schedule_wgrad(static_cast<int>(rows), static_cast<int>(columns), static_cast<int>(stages),
                     chip.sms / tile.splits, tile.splits * static_cast<int>(kMostTensorTerms / 64), cut);
  return tile.splits > 1 ? shared_in_clusters(schedule, tile.splits) : schedule;
}

std::vector<Tile> gradient_tiles(const ConvProblem& conv, const Chip& chip, int epilogue_bytes) {
  std::vector<Tile> tiles;
  for (Tile tile : kGradientTiles) {
    if (!fits_gradient(tile, conv)) continue;
    if (tile.in_turn && gradient_rows(conv, tile) * ceil_div(gradient_columns(conv), tile.n) < 2 * chip.sms) continue;
    estimate_gradient(tile, conv, epilogue_bytes, chip);
    tile.stages = stages_in(dynamic_shared_bytes(chip) - tile.consumers * 8192, tile, tile.n, 64, conv.products());
    tiles.push_back(tile);
    if (const auto pairs = in_pairs(tile, conv, chip, epilogue_bytes)) tiles.push_back(*pairs);
  }
  return sorted(priced(std::move(tiles)));
}

// Tiles of small layers take longer than their clocks, and a kernel's start longer than that of an empty one; a filter
// gradient adds its parts in another launch.
Work forward_work(double clocks) { return {.clocks = 1.273 * clocks, .launches = 1.2}; }
Work gradient_work(double clocks) { return {.clocks = 1.474 * clocks, .launches = 2.4}; }

Work tile_work(const ConvProblem& conv, const Tile& tile) {
  const auto clocks = static_cast<double>(tile.price);
  return conv.role == ConvRole::filter_grad ? gradient_work(clocks) : forward_work(clocks);
}

double tensor_core_share(const ConvProblem& conv, const Chip& chip) {
  if (conv.role == ConvRole::filter_grad) return 1;  // the schedule shares a tile's pixels out
  const Tile tile = forward_tiles(conv, chip).front();
  return std::min(1.0, static_cast<double>(forward_layer(conv).tiles(tile) * tile.splits) / chip.sms);
}

bool has_gradient_tiles(const ConvProblem& conv) {
  return std::any_of(std::begin(kGradientTiles), std::end(kGradientTiles),
                     [&](const Tile& tile) { return fits_gradient(tile, conv); });
}

}  // namespace nixie::cuda
