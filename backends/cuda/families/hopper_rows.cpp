// Input gradients by filter rows: tensor maps and program.
#include "nixie/backends/cuda/families/hopper_rows.h"

#include <algorithm>

namespace nixie::cuda {
namespace {

constexpr int kMostChannels = 96;                      // with more, conv_fprop's tiles are wide enough
constexpr int kConsumers = 2, kMmaM = 2, kGroup = 32;  // 256 positions x 5 taps of 32 channels
constexpr int kRows = 64 * kMmaM, kStages = 3;

std::int64_t positions_of(const HopperConv& conv) { return std::int64_t{1} * conv.images * conv.height * conv.q; }

std::int64_t tiles_of(const HopperConv& conv) {
  const std::int64_t own = kRows - (conv.s - 1), shares = (positions_of(conv) - (conv.s - 1) + own - 1) / own;
  return (shares + kConsumers - 1) / kConsumers * (conv.channels / kGroup);
}

}  // namespace

bool fits_rows(const HopperConv& conv) {
  return conv.products == 1 && conv.role == ConvRole::input_grad && conv.stride == std::array{1, 1} &&
         conv.dilation == std::array{1, 1} && conv.s == 5 && conv.pad[0] < conv.r && conv.pad[1] < conv.s &&
         conv.channels <= kMostChannels && conv.channels % kGroup == 0 && positions_of(conv) >= conv.s;
}

KernelCode generate_hopper_rows(const Plan& plan, const Kernel& kernel, const HopperConv& conv) {
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
                         {"CONV_GROUP", kGroup},
                         {"CONV_CONSUMERS", kConsumers},
                         {"CONV_MMA_M", kMmaM},
                         {"CONV_STAGES", kStages},
                         {"NIXIE_BF16", conv.dtype == Dtype::bf16}}) +
                body.text + "#include \"conv_rows_sm90.cuh\"\n";
  code.arguments = std::move(body.arguments);
  code.variant = fmt::format("conv_rows_sm90 {}x{}x{}", kRows * kConsumers, conv.s, kGroup);
  const Operand &dy = kernel.head->operands[0], &w = kernel.head->operands[1];
  const auto size = [](int value) { return static_cast<std::uint64_t>(value); };
  code.maps.push_back({.slot = dy.slot,
                       .offset_bytes = dy.offset * 2,
                       .dtype = conv.dtype,
                       .sizes = {size(conv.filters), size(conv.q), size(conv.p), size(conv.images)},
                       .box = {64, kRows},
                       .im2col = true,
                       .lower = {0, conv.pad[0] - (conv.r - 1)},
                       .upper = {0, -conv.pad[0]}});
  code.maps.push_back({.slot = w.slot,
                       .offset_bytes = w.offset * 2,
                       .dtype = conv.dtype,
                       .sizes = {size(conv.channels), size(conv.r * conv.s), size(conv.filters)},
                       .box = {kGroup, 1, 64},
                       .swizzle_bytes = kGroup * 2});
  code.launches.push_back(
      {.entry = "conv_rows",
       .blocks = std::min<std::int64_t>(tiles_of(conv), kMultiprocessors),
       .threads = (kConsumers + 1) * 128,
       .shared_bytes = 1024 + kStages * (kRows * kConsumers + conv.s * kGroup) * 128 + kRows * kConsumers * conv.s * 32,
       .maps = {0, 1}});
  return code;
}

}  // namespace nixie::cuda
