// The tile of an input gradient by filter rows, its tensor maps and its program.
#include "backends/cuda/hopper_rows.h"

#include <algorithm>

namespace nixie::cuda {
namespace {

constexpr int kMultiprocessors = 132;
constexpr std::int64_t kSharedBytes = 232448 - 2048;  // what a block may have, less what the kernel keeps itself
constexpr int kMostChannels = 96;                     // with more, conv_fprop's tiles are wide enough

std::int64_t positions_of(const HopperConv& conv) { return std::int64_t{1} * conv.images * conv.height * conv.q; }

std::int64_t blocks_of(const HopperConv& conv, const RowsTile& tile) {
  const std::int64_t rows = 64 * tile.mma_m, own = rows - (conv.s - 1);
  const std::int64_t shares = (positions_of(conv) - (conv.s - 1) + own - 1) / own;
  const std::int64_t tiles = (shares + tile.consumers - 1) / tile.consumers * (conv.channels / tile.group);
  return std::min<std::int64_t>(tiles, kMultiprocessors);
}

}  // namespace

std::optional<RowsTile> rows_tile(const HopperConv& conv) {
  const bool fits = conv.role == ConvRole::input_grad && conv.stride == std::array{1, 1} &&
                    conv.dilation == std::array{1, 1} && conv.s == 5 && conv.pad[0] < conv.r && conv.pad[1] < conv.s &&
                    conv.channels <= kMostChannels && positions_of(conv) >= conv.s;
  if (!fits) return {};
  RowsTile tile{.group = conv.s == 3 && conv.channels % 64 == 0 ? 64 : 32};
  if (conv.channels % tile.group != 0) return {};
  const std::int64_t rows = 64 * tile.mma_m * tile.consumers, stage = (rows + conv.s * tile.group) * 128;
  const auto staging = [&](int units) { return rows * conv.s * units * 32; };
  while (tile.units < 2 && staging(2 * tile.units) + 3 * stage <= kSharedBytes) tile.units *= 2;
  tile.stages = static_cast<int>(std::min<std::int64_t>(8, (kSharedBytes - staging(tile.units)) / stage));
  tile.shared_bytes = 1024 + tile.stages * stage + staging(tile.units);
  return tile;
}

KernelCode generate_hopper_rows(const Plan& plan, const Kernel& kernel, const HopperConv& conv, const RowsTile& tile) {
  PixelBody body = pixel_body(plan, kernel);
  KernelCode code;
  code.source = defines({{"CONV_C", conv.channels},
                         {"CONV_K", conv.filters},
                         {"CONV_R", conv.r},
                         {"CONV_S", conv.s},
                         {"CONV_H", conv.height},
                         {"CONV_W", conv.width},
                         {"CONV_Q", conv.q},
                         {"CONV_POSITIONS", positions_of(conv)},
                         {"CONV_PAD_H", conv.pad[0]},
                         {"CONV_PAD_W", conv.pad[1]},
                         {"CONV_GROUP", tile.group},
                         {"CONV_CONSUMERS", tile.consumers},
                         {"CONV_MMA_M", tile.mma_m},
                         {"CONV_UNITS", tile.units},
                         {"CONV_STAGES", tile.stages},
                         {"NIXIE_BF16", conv.dtype == Dtype::bf16}}) +
                body.text + "#include \"conv_rows_sm90.cuh\"\n";
  code.arguments = std::move(body.arguments);
  code.variant = fmt::format("conv_rows_sm90 {}x{}x{}", 64 * tile.mma_m * tile.consumers, conv.s, tile.group);
  const Operand &dy = kernel.head->operands[0], &w = kernel.head->operands[1];
  const auto size = [](int value) { return static_cast<std::uint64_t>(value); };
  const auto box = [](int value) { return static_cast<std::uint32_t>(value); };
  code.maps.push_back({.slot = dy.slot,
                       .offset_bytes = dy.offset * 2,
                       .dtype = conv.dtype,
                       .sizes = {size(conv.filters), size(conv.q), size(conv.p), size(conv.images)},
                       .box = {64, box(64 * tile.mma_m)},
                       .im2col = true,
                       .lower = {0, conv.pad[0] - (conv.r - 1)},
                       .upper = {0, -conv.pad[0]}});
  code.maps.push_back({.slot = w.slot,
                       .offset_bytes = w.offset * 2,
                       .dtype = conv.dtype,
                       .sizes = {size(conv.channels), size(conv.r * conv.s), size(conv.filters)},
                       .box = {box(tile.group), 1, 64},
                       .swizzle_bytes = tile.group * 2});
  code.launches.push_back({.entry = "conv_rows",
                           .blocks = blocks_of(conv, tile),
                           .threads = (tile.consumers + 1) * 128,
                           .shared_bytes = tile.shared_bytes,
                           .maps = {0, 1}});
  return code;
}

}  // namespace nixie::cuda
