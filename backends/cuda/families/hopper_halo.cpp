// Convolutions from patches with their halo: how patches tile the images, tensor maps and program.
#include "nixie/backends/cuda/families/hopper_halo.h"

#include <algorithm>

#include "nixie/backends/cuda/families/first_layer.h"
#include "nixie/backends/cuda/families/hopper_tiles.h"

namespace nixie::cuda {
namespace {

constexpr int kChunkBytes = 4 * 4608;  // through which sums pass, of both consumers
constexpr int kRingBytes = kBlockSharedBytes - kChunkBytes;
constexpr int kStageBytes = 8192;
constexpr double kLeastUse = 0.9;  // of the products that are computed

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// The sum as the kernel sees it: of the output's pixels over the input's channels.
struct Sides {
  int channels, filters, p, q, pad_h, pad_w;
};
Sides sides_of(const HopperConv& conv) {
  if (conv.role == ConvRole::output) return {conv.channels, conv.filters, conv.p, conv.q, conv.pad[0], conv.pad[1]};
  return {conv.filters, conv.channels, conv.height, conv.width, conv.r - 1 - conv.pad[0], conv.s - 1 - conv.pad[1]};
}

struct Patches {
  int together = 0, high = 0;  // images side by side, rows
  double use = 0;              // of the pixels that are computed
  int places = 0;
  bool shared = false;
  int ring = 0, bytes = 0;  // patches and filters that rings hold
  int stages = 0;
};

// The patches that waste least, the larger ones if equal.
Patches patches_of(const HopperConv& conv) {
  const Sides sides = sides_of(conv);
  Patches best;
  for (int together : {1, 2, 4, 8})
    for (int high : {28, 24}) {
      const int places = ceil_div(conv.images, together) * ceil_div(sides.p, high) * ceil_div(sides.q, 8 / together);
      const double use = static_cast<double>(conv.images) * sides.p * sides.q / (8.0 * high * places);
      const int bytes = (8 / together + conv.s - 1) * together * (high + conv.r - 1) * 128;
      const bool shared = ceil_div(sides.filters, 64) % 2 == 0;
      const int ring = shared ? 3 : 2, room = ceil_div(bytes, 1024) * 1024 * ring * (shared ? 1 : 2);
      const int stages = std::min(8, (kRingBytes - room) / (2 * kStageBytes));
      if (use <= best.use || room > kRingBytes || stages < 2) continue;
      best = {together, high, use, places, shared, ring, room, stages};
    }
  best.use *= static_cast<double>(sides.filters) / (ceil_div(sides.filters, 64) * 64) * sides.channels /
              (ceil_div(sides.channels, 16) * 16);
  return best;
}

int tiles_of(const Sides& sides, const Patches& patches) {
  const int columns = ceil_div(sides.filters, 64);
  return patches.shared ? patches.places * columns / 2 : ceil_div(patches.places, 2) * columns;
}

}  // namespace

bool fits_halo(const HopperConv& conv) {
  const Sides sides = sides_of(conv);
  return conv.products == 1 && conv.role != ConvRole::filter_grad && conv.stride == std::array{1, 1} &&
         conv.dilation == std::array{1, 1} && conv.r * conv.s >= 9 && conv.r <= 16 && conv.s <= 16 &&
         sides.pad_h >= 0 && sides.pad_w >= 0 && patches_of(conv).use >= kLeastUse;
}

// Products alone: one consumer's epilogue is under the other's products, and L2 is read too little to matter.
double halo_clocks(const HopperConv& conv) {
  const Sides sides = sides_of(conv);
  const Patches patches = patches_of(conv);
  const double steps = ceil_div(sides.channels, 16) * conv.r * conv.s;
  return ceil_div(tiles_of(sides, patches), kMultiprocessors) * 2 * steps * 4 * patches.high;
}

bool pools_halo(const HopperConv& conv) {
  return conv.role == ConvRole::output && fits_halo(conv) && patches_of(conv).together <= 2 &&
         halo_clocks(conv) <= static_cast<double>(forward_tiles(conv).front().clocks);
}

KernelCode generate_hopper_halo(const Plan& plan, const Kernel& kernel, const HopperConv& conv) {
  const Sides sides = sides_of(conv);
  const Patches patches = patches_of(conv);
  check(patches.together > 0, "no patch of this convolution fits shared memory; fits_halo says which do");
  const bool transposed = conv.role == ConvRole::input_grad;
  KernelCode code;
  code.source = defines({{"CONV_C", sides.channels},
                         {"CONV_K", sides.filters},
                         {"CONV_R", conv.r},
                         {"CONV_S", conv.s},
                         {"CONV_IMAGES", conv.images},
                         {"CONV_P", sides.p},
                         {"CONV_Q", sides.q},
                         {"CONV_PAD_H", sides.pad_h},
                         {"CONV_PAD_W", sides.pad_w},
                         {"CONV_TOGETHER", patches.together},
                         {"CONV_HIGH", patches.high},
                         {"CONV_SHARED", patches.shared},
                         {"CONV_PATCHES", patches.ring},
                         {"CONV_STAGES", patches.stages},
                         {"CONV_TRANSPOSED_W", transposed},
                         {"CONV_POOL", conv.pooled},
                         {"NIXIE_BF16", conv.dtype == Dtype::bf16}});
  if (conv.pooled) {
    const BiasRelu epilogue = *bias_relu_of(kernel);
    code.source += defines({{"CONV_BIAS", epilogue.bias >= 0}, {"CONV_RELU", epilogue.relu}});
    const auto address = [&](const Access& access, int bytes) { return Argument{access.slot, access.offset * bytes}; };
    const Access &y = kernel.stores[0], &index = kernel.stores[1];
    code.arguments = {
        epilogue.bias >= 0 ? address(kernel.loads[static_cast<std::size_t>(epilogue.bias)], 4) : address(y, 2),
        address(y, 2), address(index, 1)};
  } else {
    PixelBody body = pixel_body(plan, kernel);
    code.source += body.text;
    code.arguments = std::move(body.arguments);
  }
  code.source += "#include \"conv_halo_sm90.cuh\"\n";
  code.variant = fmt::format("conv_halo_sm90 {}x{}x{}{}{}", patches.together, 8 / patches.together, patches.high,
                             patches.shared ? ", shared" : "", conv.pooled ? " with pool" : "");
  const Operand &x = kernel.head->operands[0], &w = kernel.head->operands[1];
  const auto size = [](int value) { return static_cast<std::uint64_t>(value); };
  const auto side = [](int value) { return static_cast<std::uint32_t>(value); };
  const int height = transposed ? conv.p : conv.height, width = transposed ? conv.q : conv.width;
  code.maps.push_back(
      {.slot = x.slot,
       .offset_bytes = x.offset * 2,
       .dtype = conv.dtype,
       .sizes = {size(sides.channels), size(conv.images), size(width), size(height)},
       .strides = {size(height) * size(width) * size(sides.channels), size(sides.channels),
                   size(width) * size(sides.channels)},
       .box = {64, side(patches.together), side(8 / patches.together + conv.s - 1), side(patches.high + conv.r - 1)}});
  code.maps.push_back({.slot = w.slot,
                       .offset_bytes = w.offset * 2,
                       .dtype = conv.dtype,
                       .sizes = {size(conv.channels), size(conv.r * conv.s), size(conv.filters)},
                       .box = {64, 1, 64}});
  code.launches.push_back({.entry = "conv_halo",
                           .blocks = std::min(tiles_of(sides, patches), kMultiprocessors),
                           .threads = 384,
                           .shared_bytes = 1024 + patches.bytes + 2 * patches.stages * kStageBytes + kChunkBytes,
                           .maps = {0, 1}});
  return code;
}

}  // namespace nixie::cuda
