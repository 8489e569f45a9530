// Filter gradient on Hopper's tensor cores from patches of pixels that taps share: the sums of conv_wgrad_sm90.cuh for
// windows of several taps with stride 1.
//
// Idea     conv_wgrad reads x from L2 once for each tap and each tile of filters: 85 bytes per clock with 64 filters,
//          more than L2 delivers. Here a patch of pixels with its halo is loaded once for CONV_SLICE channels, and taps
//          are shifted addresses, as in conv_halo_sm90.cuh. 64 filters x 9 taps x 64 channels take 20 bytes per clock.
// Layout   as in conv_wgrad. A stage is a patch: gradients at CONV_HIGH rows of 8 places (CONV_TOGETHER images of
//          8 / TOGETHER columns), and the pixels around them (wgrad_patch.cuh). Since the swizzle depends on address
//          bits, any 8 neighbouring places can be 8 terms of a product. The taps of a run are columns of one product,
//          at shifted addresses. Outside the images TMA reads zeros, also at places that have no gradient.
// Roles    one producer thread fills a ring. Consumers divide among them the tile's CONV_LINES runs of taps and its
//          filters, 64 * CONV_MMA_M each; all sums are in registers.
// Split    parts, bias gradient, Body: as in conv_wgrad. Consumers of the same filters take turns at the bias gradient,
//          as columns of tiles do, and each stores a part.
// Turned   CONV_TURNED = 1 swaps x and dy, for layers with fewer filters than a tile has rows: taps then count from the
//          last, and C, K, P, Q, the pads, x_map and dy_map are those of the swapped problem. No bias gradient.
// Limits   stride 1, one product; C and K of a group multiples of 8.
//
// Compile-time, all required:
//   CONV_C CONV_K CONV_R CONV_S CONV_P CONV_Q CONV_PAD_H/_W CONV_DILATION_H/_W CONV_GROUPS    as in conv_wgrad
//   CONV_SLICE                     channels of a patch: 64, 32 or 16
//   CONV_TOGETHER CONV_HIGH        1, 2, 4 or 8; even
//   CONV_TURNED                    0 or 1
//   CONV_DOWN                      0 or 1; 1: runs of taps go down the window, lines across
//   CONV_RUN CONV_LINES            taps of a run, RUN * SLICE = TILE_N; runs of a tile, a divisor of CONSUMERS
//   CONV_CONSUMERS CONV_MMA_M      tile rows (filters) = 64 * CONSUMERS / LINES * MMA_M
//   CONV_TILE_N                    32, 64, 96, 128, 160, 192, 224 or 256
//   CONV_STAGES CONV_ITEMS CONV_SPLITS CONV_WAYS CONV_BIAS_GRAD CONV_PREFETCH NIXIE_BF16 NIXIE_PRODUCTS
//                                  as in conv_wgrad
//   CONV_CLUSTER                   1
// Body as for conv_wgrad, but an item's column counts slabs of SLICE channels, then tiles of taps; parts is
//   float[slots][tile rows * LINES * TILE_N], bias_parts float[items][LINES][tile rows].
// Kernel conv_wgrad(x_map, dy_map, body):
//   x_map   tiled {C, N, W, H}, box {SLICE, TOGETHER, columns of the patch, rows}, swizzle of SLICE * 2 bytes
//   dy_map  tiled {K, N, Q, P}, box {64, TOGETHER, 8 / TOGETHER, HIGH}, swizzle 128 bytes
//   grid    one block per worker of the schedule; block (CONSUMERS + 1) * 128; dynamic shared memory
//           1024 + STAGES * (tile rows * HIGH * 16 + bytes of a patch, rounded up to 1024) + CONSUMERS * 8192
// Kernel conv_wgrad_reduce(body): as in conv_wgrad.
#pragma once
#include "ptx.cuh"
#include "wgrad_patch.cuh"

constexpr nixie::cuda::WgradPatch kPatch{CONV_R,    CONV_S,    CONV_DILATION_H, CONV_DILATION_W, CONV_TOGETHER,
                                         CONV_HIGH, CONV_DOWN, CONV_RUN,        CONV_LINES};
constexpr int kSlice = CONV_SLICE, kPlaceBytes = kSlice * 2, kSlabs = (CONV_C + kSlice - 1) / kSlice;
constexpr int kStages = CONV_STAGES, kConsumers = CONV_CONSUMERS, kMmaM = CONV_MMA_M, kTileN = CONV_TILE_N;
constexpr int kLines = CONV_LINES, kTileThreads = kConsumers * 128, kPlanes = 1;
constexpr int kPositions = CONV_R * CONV_S, kOtherRegisters = 64;
constexpr int kTileM = 64 * (kConsumers / kLines) * kMmaM, kTilesM = (CONV_K + kTileM - 1) / kTileM;
constexpr int kTilesN = kPatch.tiles() * kSlabs, kSteps = CONV_HIGH / 2;  // of 16 places
constexpr int kPitchBytes = kPatch.pitch() * kPlaceBytes, kPatchBytes = kPatch.places() * kPlaceBytes;
constexpr int kBoxBytes = CONV_HIGH * 8 * 128, kBytesA = kTileM / 64 * kBoxBytes;
constexpr int kStageBytes = kBytesA + (kPatchBytes + 1023) / 1024 * 1024;
constexpr Swizzle kSwizzle = kSlice == 64 ? Swizzle::b128 : kSlice == 32 ? Swizzle::b64 : Swizzle::b32;
static_assert(!CONV_TURNED || !CONV_BIAS_GRAD);
static_assert(CONV_C % 8 == 0 && kTileN == CONV_RUN * kSlice && kConsumers % kLines == 0 && CONV_HIGH % 2 == 0);
#include "wgrad_block.cuh"

NIXIE_DEVICE bool locate(const Item& item, int thread, int column, int& tap, int& c) {
  const int in_run = column / kSlice;
  const auto at = kPatch.tap(item.n / kSlabs, thread / 128 % kLines, in_run);
  tap = at.h * CONV_S + at.w, c = item.n % kSlabs * kSlice + column - in_run * kSlice;
  return kPatch.has(at) && (CONV_C % kSlice == 0 || c < CONV_C);
}

NIXIE_DEVICE void produce(const Maps& maps, const Shared& shared, const int4* items, int count, volatile int& begun) {
  Ring<kStages> ring;
  for (int i = 0; i < count; i++) {
    if (CONV_PREFETCH) begun = i + 1;
    const Item item(items[i]);
    const int filter = item.group * CONV_K + item.m * kTileM, channel = item.group * CONV_C + item.n % kSlabs * kSlice;
    const auto tap = kPatch.tap(item.n / kSlabs, 0, 0);
    const int shift_h = tap.h * CONV_DILATION_H - CONV_PAD_H, shift_w = tap.w * CONV_DILATION_W - CONV_PAD_W;
    // Boxes past the last filter are not loaded: their results are not stored.
    const int boxes = min(kTileM / 64, (CONV_K - item.m * kTileM + 63) / 64);
    for (int k = 0; k < item.count; k++, ring.next()) {
      const auto [image, h, w] = kPatch.corner(item.first + k, CONV_P, CONV_Q);
      const u32 a = shared.ring + ring.stage * kStageBytes, bar = shared.full + 8 * ring.stage;
      barrier_wait(shared.empty + 8 * ring.stage, ring.parity ^ 1);
      barrier_expect(bar, boxes * kBoxBytes + kPatchBytes);
#pragma unroll
      for (int j = 0; j < kTileM / 64; j++)
        if (j < boxes) copy_box_4d(a + j * kBoxBytes, maps.dy[0], bar, filter + j * 64, image, w, h);
      copy_box_4d(a + kBytesA, maps.x[0], bar, channel, image, w + shift_w, h + shift_h);
    }
  }
}

// The addresses of a consumer's operands in stage 0; it computes run `line` of the tile.
struct Operands {
  Shared shared;
  int line;
  u32 a, b;
  NIXIE_DEVICE Operands(const Shared& shared, int consumer)
      : shared(shared),
        line(consumer % kLines),
        a(shared.ring + consumer / kLines * kMmaM * kBoxBytes),
        b(shared.ring + kBytesA + line * kPatch.line_step() * kPlaceBytes) {}
};

// Computes the sums of one item, over all its stages.
NIXIE_DEVICE void accumulate(Sums& sums, Ring<kStages>& ring, const Item& item, const Operands& at, const Turn&) {
  const bool leader = threadIdx.x % 128 == 0;
#pragma unroll
  for (int i = 0; i < kMmaM * 4; i++) sums.bias[i / 4][i % 4] = 0;
  for (int k = 0; k < item.count; k++) {
    const u32 a = at.a + ring.stage * kStageBytes, b = at.b + ring.stage * kStageBytes;
    const bool bias_turn = CONV_BIAS_GRAD && (item.first + k) % (kTilesN * kLines) == item.n * kLines + at.line;
    barrier_wait(at.shared.full + 8 * ring.stage, ring.parity);
#pragma unroll
    for (int m = 0; m < kMmaM; m++) pin(sums.tile[m]), pin(sums.bias[m]);
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < kSteps; i++)
#pragma unroll
      for (int m = 0; m < kMmaM; m++)
        wgmma<1, 1>(sums.tile[m], operand<Swizzle::b128>(a + m * kBoxBytes + i * 2048, 8192, 1024),
                    operand<kSwizzle>(b + i * 2 * kPitchBytes, kPatch.run_step() * kPlaceBytes, kPitchBytes),
                    k != 0 || i != 0);
    if (bias_turn) {
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < kSteps * kMmaM; i++)
        wgmma<1, 0>(sums.bias[i / kSteps],
                    operand<Swizzle::b128>(a + i / kSteps * kBoxBytes + i % kSteps * 2048, 8192, 1024),
                    operand<Swizzle::none>(at.shared.ones, 128, 128), true);
    }
    wgmma_commit();
    wgmma_wait<1>();  // the previous stage has been read: release it
    if (k > 0 && leader) barrier_arrive(at.shared.empty + 8 * ring.previous());
    ring.next();
  }
  wgmma_wait<0>();
  if (leader) barrier_arrive(at.shared.empty + 8 * ring.previous());
#pragma unroll
  for (int m = 0; m < kMmaM; m++) pin(sums.tile[m]), pin(sums.bias[m]);
}

extern "C" __global__ void __launch_bounds__((kConsumers + 1) * 128, 1)
    conv_wgrad(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy,
               const __grid_constant__ Body body) {
  run_block<Operands>({{&x}, {&dy}}, body);
}
