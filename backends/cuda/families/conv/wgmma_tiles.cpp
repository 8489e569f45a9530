// The tiles of 16-bit convolutions on sm_90a and an estimate of each, in clocks.
#include "nixie/backends/cuda/families/conv/wgmma_tiles.h"

#include <algorithm>

#include "nixie/backends/cuda/kernels/conv/conv_wgrad_schedule.h"
#include "nixie/backends/cuda/kernels/conv/tensor_sums.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

constexpr Tile kForwardTiles[] = {{2, 1, 256}, {2, 2, 128}, {3, 1, 128}, {2, 1, 192}, {2, 1, 128}, {2, 2, 96},
                                  {2, 2, 64},  {2, 1, 96},  {2, 1, 64},  {1, 1, 64},  {2, 1, 48},  {2, 1, 32}};
constexpr Tile kGradientTiles[] = {{2, 1, 256}, {2, 2, 128}, {2, 1, 192}, {3, 1, 128}, {2, 1, 160}, {2, 2, 96},
                                   {2, 1, 128}, {2, 1, 96},  {1, 1, 192}, {2, 1, 64},  {1, 1, 96},  {1, 1, 64}};

// Three products keep three times the sums in registers.
bool fits(const Tile& tile, int products) {
  return products == 1 || (tile.consumers < 3 && tile.mma_m * tile.n <= 128);
}

// Clocks of one stage of 64 along the reduction: products of 64 x n take n / 2 clocks per 16 terms, or longer if
// shared memory or the L2 cache delivers the operands more slowly.
std::int64_t stage_clocks(const Tile& tile, std::int64_t rows_b, int products, const Chip& chip) {
  const std::int64_t clocks = tile.consumers * tile.mma_m * 4 * std::max(tile.n / 2, 16 + tile.n / 4);
  return std::max<std::int64_t>(products * clocks,
                                planes_of(products) * (tile.rows() + rows_b) * 128 / chip.l2_bytes_per_clock);
}

// Clocks of the busiest block, and of partial tiles that are written to L2 and read again.
std::int64_t gradient_clocks(const Tile& tile, std::int64_t rows, std::int64_t columns, std::int64_t stages,
                             int products, const Chip& chip) {
  const WgradSchedule schedule = schedule_wgrad(static_cast<int>(rows), static_cast<int>(ceil_div(columns, tile.n)),
                                                static_cast<int>(stages), chip.sms, kMostTensorTerms / 64);
  std::int64_t longest = 0;
  for (std::size_t block = 0; block + 1 < schedule.first_items.size(); ++block) {
    std::int64_t own = 0;
    for (std::int32_t i = schedule.first_items[block]; i < schedule.first_items[block + 1]; ++i)
      own += schedule.items[at(i)].count;
    longest = std::max(longest, own);
  }
  const std::int64_t part_bytes = std::int64_t{4} * schedule.slots * tile.rows() * tile.n;
  return longest * stage_clocks(tile, tile.n, products, chip) +
         2 * part_bytes / (std::int64_t{chip.l2_bytes_per_clock} * chip.sms);
}

int stages_in(std::int64_t room, const Tile& tile, std::int64_t rows_b, int products) {
  return static_cast<int>(std::min<std::int64_t>(8, room / (planes_of(products) * (tile.rows() + rows_b) * 128)));
}

// Columns of a filter gradient: the elements of one filter.
std::int64_t columns_of(const ConvProblem& conv) {
  return std::int64_t{1} * conv.r * conv.s * (conv.channels / conv.groups);
}

bool fits_gradient(const Tile& tile, const ConvProblem& conv) {
  const int slice = slice_of(conv.channels / conv.groups);
  if (!fits(tile, conv.products()) || tile.n % slice != 0 || tile.n / slice > 8) return false;
  if (conv.row_channels > 0 && tile.consumers == 3) return false;  // addresses of packed rows need the registers
  return gradient_rows(conv, tile) <= kMostTileRows && ceil_div(columns_of(conv), tile.n) <= kMostTileColumns;
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

int slice_of(std::int64_t channels) { return channels % 64 == 0 || channels % 16 != 0 ? 64 : channels % 32 ? 16 : 32; }

int planes_of(int products) { return products == 3 ? 2 : 1; }

ForwardLayer forward_layer(const ConvProblem& conv) {
  ForwardLayer layer{.channels = conv.channels / conv.groups,
                     .filters = conv.filters / conv.groups,
                     .groups = conv.groups,
                     .p = conv.p,
                     .q = conv.q,
                     .pad = conv.pad};
  layer.slice = slice_of(layer.channels);
  if (conv.role == ConvRole::input_grad) {
    layer.transposed = true, layer.slice = 64;
    std::swap(layer.channels, layer.filters);
    layer.p = conv.height, layer.q = conv.width;
    layer.pad = {(conv.r - 1) * conv.dilation[0] - conv.pad[0], (conv.s - 1) * conv.dilation[1] - conv.pad[1]};
  }
  layer.pixels = std::int64_t{1} * conv.images * layer.p * layer.q;
  layer.stages = ceil_div(ceil_div(layer.channels, layer.slice) * conv.r * conv.s * layer.slice, 64);
  return layer;
}

// The tile whose last wave ends first. Turned filters come in boxes of 64. An epilogue hides better behind the products
// of two other warpgroups.
std::vector<Tile> forward_tiles(const ConvProblem& conv, const Chip& chip) {
  const ForwardLayer layer = forward_layer(conv);
  std::vector<Tile> tiles;
  for (Tile tile : kForwardTiles) {
    if (!fits(tile, conv.products()) || (tile.n % 64 != 0 && layer.filters > tile.n)) continue;
    const std::int64_t waves =
        ceil_div(ceil_div(layer.pixels, tile.rows()) * layer.groups * ceil_div(layer.filters, tile.n), chip.sms);
    const std::int64_t epilogue = tile.rows() * tile.n / (tile.consumers == 3 ? 16 : 12);
    const std::int64_t rows_b = layer.transposed ? ceil_div(tile.n, 64) * 64 : tile.n;
    tile.clocks = waves * (layer.stages * stage_clocks(tile, rows_b, conv.products(), chip) + epilogue);
    tile.stages = stages_in(dynamic_shared_bytes(chip) - tile.consumers * 16384, tile, rows_b, conv.products());
    tiles.push_back(tile);
  }
  return sorted(std::move(tiles));
}

std::vector<Tile> gradient_tiles(const ConvProblem& conv, const Chip& chip) {
  const std::int64_t stages = ceil_div(std::int64_t{1} * conv.images * conv.p * conv.q, 64);
  std::vector<Tile> tiles;
  for (Tile tile : kGradientTiles) {
    if (!fits_gradient(tile, conv)) continue;
    tile.clocks = gradient_clocks(tile, gradient_rows(conv, tile), columns_of(conv), stages, conv.products(), chip);
    tile.stages = stages_in(dynamic_shared_bytes(chip) - tile.consumers * 8192, tile, tile.n, conv.products());
    tiles.push_back(tile);
  }
  return sorted(std::move(tiles));
}

bool has_gradient_tiles(const ConvProblem& conv) {
  return std::any_of(std::begin(kGradientTiles), std::end(kGradientTiles),
                     [&](const Tile& tile) { return fits_gradient(tile, conv); });
}

}  // namespace nixie::cuda
