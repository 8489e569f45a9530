// Filter gradient on Hopper's tensor cores from patches of pixels that taps share: the sums of conv_wgrad_sm90.cuh for
// windows of several taps of stride 1.
//
// Idea     conv_wgrad reads x from L2 once for each tap and each tile of filters, 85 bytes a clock where there are 64
//          filters: more than L2 gives. Here a patch of pixels with its halo comes once for CONV_SLICE channels, and
//          taps are shifted addresses, as in conv_halo_sm90.cuh. 64 filters x 9 taps x 64 channels take 20 bytes a
//          clock.
// Layout   as in conv_wgrad. A stage is a patch: gradients at CONV_HIGH rows of 8 places (CONV_TOGETHER images of
//          8 / TOGETHER columns), and the pixels around them (wgrad_patch.cuh). The swizzle follows address bits, so
//          8 neighbouring places are 8 terms of a product wherever they start; taps of a run are one product's
//          columns, a shift apart. Outside of images TMA reads zeros: for what no gradient is at, too.
// Roles    one producer thread fills a ring; consumers have CONV_LINES runs of taps and the filters in 64 * CONV_MMA_M
//          between them, every sum in registers.
// Split    parts, bias gradient, Body: as in conv_wgrad. Consumers of the same filters take turns at the bias gradient
//          as columns of tiles do, and each leaves a part.
// Turned   CONV_TURNED = 1: x takes the place of the gradients and dy that of x, taps count from the last, and C, K, P,
//          Q and pads are what they are for that problem, as x_map and dy_map are: where there are fewer filters than
//          a tile has rows. No bias gradient.
// Limits   stride 1, one product; C and K of a group multiples of 8.
//
// Compile-time, all required:
//   CONV_C CONV_K CONV_R CONV_S CONV_P CONV_Q CONV_PAD_H/_W CONV_DILATION_H/_W CONV_GROUPS    as in conv_wgrad
//   CONV_SLICE                     channels of a patch: 64, 32 or 16
//   CONV_TOGETHER CONV_HIGH        1, 2, 4 or 8; even
//   CONV_TURNED                    0 or 1
//   CONV_DOWN                      0 or 1; 1: runs of taps go down the window, lines across
//   CONV_RUN CONV_LINES            taps of a run, RUN * SLICE = TILE_N; runs of a tile, which divide CONSUMERS
//   CONV_CONSUMERS CONV_MMA_M      tile rows (filters) = 64 * CONSUMERS / LINES * MMA_M
//   CONV_TILE_N                    32, 64, 96, 128, 160, 192, 224 or 256
//   CONV_STAGES CONV_ITEMS CONV_SPLITS CONV_BIAS_GRAD CONV_PREFETCH NIXIE_BF16    as in conv_wgrad
// Body as for conv_wgrad; items' columns count slabs of SLICE channels, then tiles of taps; parts
//   float[slots][tile rows * LINES * TILE_N]; bias_parts float[items][LINES][tile rows].
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
#include "wgrad_sums.cuh"

NIXIE_DEVICE bool locate(const Item& item, int thread, int column, int& tap, int& c) {
  const int in_run = column / kSlice;
  const auto at = kPatch.tap(item.n / kSlabs, thread / 128 % kLines, in_run);
  tap = at.h * CONV_S + at.w, c = item.n % kSlabs * kSlice + column - in_run * kSlice;
  return kPatch.has(at) && (CONV_C % kSlice == 0 || c < CONV_C);
}

NIXIE_DEVICE void produce(const TensorMap* x, const TensorMap* dy, u32 shared, u32 full, u32 empty, const int4* items,
                          int count, volatile int& begun) {
  Ring<kStages> ring;
  for (int i = 0; i < count; i++) {
    if (CONV_PREFETCH) begun = i + 1;
    const Item item(items[i]);
    const int filter = item.group * CONV_K + item.m * kTileM, channel = item.group * CONV_C + item.n % kSlabs * kSlice;
    const auto tap = kPatch.tap(item.n / kSlabs, 0, 0);
    const int shift_h = tap.h * CONV_DILATION_H - CONV_PAD_H, shift_w = tap.w * CONV_DILATION_W - CONV_PAD_W;
    // Boxes of filters past the last are left out: what is multiplied for them is not stored.
    const int boxes = min(kTileM / 64, (CONV_K - item.m * kTileM + 63) / 64);
    for (int k = 0; k < item.count; k++, ring.next()) {
      const auto [image, h, w] = kPatch.corner(item.first + k, CONV_P, CONV_Q);
      const u32 a = shared + ring.stage * kStageBytes, bar = full + 8 * ring.stage;
      barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
      barrier_expect(bar, boxes * kBoxBytes + kPatchBytes);
#pragma unroll
      for (int j = 0; j < kTileM / 64; j++)
        if (j < boxes) copy_box_4d(a + j * kBoxBytes, dy, bar, filter + j * 64, image, w, h);
      copy_box_4d(a + kBytesA, x, bar, channel, image, w + shift_w, h + shift_h);
    }
  }
}

// What a consumer multiplies in stage 0, and where a stage's barriers are.
struct Operands {
  u32 a, b, full, empty, ones;
};

// All stages of one item into `sums`; the consumer has run `line` of the tile.
NIXIE_DEVICE void accumulate(Sums& sums, Ring<kStages>& ring, const Item& item, const Operands& at, int line) {
  const bool leader = threadIdx.x % 128 == 0;
#pragma unroll
  for (int i = 0; i < kMmaM * 4; i++) sums.bias[i / 4][i % 4] = 0;
  for (int k = 0; k < item.count; k++) {
    const u32 a = at.a + ring.stage * kStageBytes, b = at.b + ring.stage * kStageBytes;
    const bool bias_turn = CONV_BIAS_GRAD && (item.first + k) % (kTilesN * kLines) == item.n * kLines + line;
    barrier_wait(at.full + 8 * ring.stage, ring.parity);
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
                    operand<Swizzle::none>(at.ones, 128, 128), true);
    }
    wgmma_commit();
    wgmma_wait<1>();  // the stage before is read: hand it back
    if (k > 0 && leader) barrier_arrive(at.empty + 8 * ring.previous());
    ring.next();
  }
  wgmma_wait<0>();
  if (leader) barrier_arrive(at.empty + 8 * ring.previous());
#pragma unroll
  for (int m = 0; m < kMmaM; m++) pin(sums.tile[m]), pin(sums.bias[m]);
}

extern "C" __global__ void __launch_bounds__((kConsumers + 1) * 128, 1)
    conv_wgrad(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy,
               const __grid_constant__ Body body) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full_barriers[kStages], empty_barriers[kStages];
  __shared__ alignas(128) u32 ones[64];
  const u32 shared = (shared_address(dynamic) + 1023) & ~1023u, full = shared_address(full_barriers),
            empty = shared_address(empty_barriers);
  const int first = body.first_items[blockIdx.x], count = body.first_items[blockIdx.x + 1] - first;
  const int4* items = body.items + first;
  __shared__ volatile int begun;  // items, by the producer
  if (threadIdx.x == 0) begun = 0;
  if (threadIdx.x < 64) ones[threadIdx.x] = pack(1.f, 1.f);
  fence_async_proxy();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, kConsumers);
    }
    barrier_init_done();
    prefetch_map(&x), prefetch_map(&dy);
  }
  __syncthreads();
  const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (role == 0) {
    if (kConsumers > 1) registers_down<kConsumers == 2 ? 40 : 32>();
    if (threadIdx.x == 0) produce(&x, &dy, shared, full, empty, items, count, begun);
#if CONV_PREFETCH
    if (threadIdx.x / 32 == 1) prefetch_tiles(body, items, count, begun);
#endif
  } else {
    if (kConsumers > 1) registers_up<kConsumers == 2 ? 232 : 160>();
    const int thread = threadIdx.x - 128, line = (role - 1) % kLines;
    const u32 staging = shared + kStages * kStageBytes + (threadIdx.x / 32 - 4) * 2048;
    const Operands at{shared + (role - 1) / kLines * kMmaM * kBoxBytes,
                      shared + kBytesA + line * kPatch.line_step() * kPlaceBytes, full, empty, shared_address(ones)};
    Sums sums;
    Ring<kStages> ring;
    for (int i = 0; i < count; i++) {
      const Item item(items[i]);
      accumulate(sums, ring, item, at, line);
      finish(body, sums, item, body.bias_parts + (first + i) * kLines * kTileM, staging, thread);
    }
  }
}
