// Filter gradient on Hopper's tensor cores: dw[k, tap, c] = sum over pixels of dy[pixel, k] * x[pixel + tap, c], with
// the bias gradient db[k] = sum over pixels of dy[pixel, k] fused.
//
// Layout   x, dy channels-last, 16-bit; dw [K][R][S][C]. A matrix product of M = filters, N = taps x channels, whose
//          reduction runs over pixels, 64 per stage. M and N are contiguous in both operands, which wgmma can read.
// Roles    one producer thread fills a ring of stages by TMA (im2col for x); CONV_CONSUMERS warpgroups multiply, each
//          64 * CONV_MMA_M filters, and store their own results. With CONV_IN_TURN = 1 each has its own items: if a
//          tile has few stages, one consumer stores (updates weights) while the other multiplies. A consumer waits
//          until the previous one has read all its stages: a barrier's parity distinguishes only two neighbouring
//          phases, so a consumer further ahead would take old data for new.
// Split    there are few tiles and many pixels, so a schedule made by the host cuts the pixels of a tile into items
//          (conv_wgrad_schedule.h). An item that is a whole tile runs Body. A part writes fp32 sums to the workspace,
//          and conv_wgrad_reduce adds the parts in a fixed order and runs Body: no result depends on timing. If Body is
//          the update of the weights, dw itself is never written.
// Clusters CONV_CLUSTER blocks share the stages of each item, and each adds the sums of all of them, out of their
//          shared memory, for its share of the tile: half as many tiles as blocks then need no parts.
// Memory   what Body will read for a whole tile is prefetched into L2 while the tile's products run.
// Bias     in some stages dy is also multiplied by a column of ones. The columns of tiles take turns at this, so that
//          workers share it equally (when one column of tiles did it all, its workers finished last: 5 to 10 % slower).
// Products CONV_PRODUCTS = 3: two planes of each operand, as in conv_fprop_sm90.cuh; without a bias gradient.
// Rows     CONV_ROW_CHANNELS > 0: a "channel" is one of the S * ROW_CHANNELS numbers of a filter's row (x holds these
//          side by side for every column of pixels, padded to C), and this kernel's S is 1.
// Stores   sums pass through shared memory, so that eight lanes hold 32 neighbouring columns of a row, and Body loads
//          and stores whole lines of 128 bytes. With pieces of 32 bytes, wgmma's order, an update took 150 us more than
//          its product on Overfeat conv5; now it takes 40 us more, its memory bound.
// Groups   channels and filters of all groups are side by side, CONV_C and CONV_K of each; rows of tiles cover the
//          filters of all groups.
// Limits   those of im2col TMA; C a multiple of 8, and so is K of all groups together.
//
// Measured on an H200, reduction and bias gradient included: 0.85 to 0.97 of the matrix rate
// of the run on VGG and Overfeat, 0.8 on AlexNet's 13x13 layers, where the parts cost most. The bias gradient costs 0
// to 4 %. Slices of 32 channels fit C = 96 exactly (Overfeat conv2: cuDNN 171 us, here 135).
//
// Compile-time, all required:
//   CONV_C CONV_K CONV_R CONV_S CONV_P CONV_Q CONV_STRIDE_H/_W CONV_PAD_H/_W CONV_DILATION_H/_W    the layer,
//                                  C and K of one group
//   CONV_GROUPS
//   CONV_SLICE                     channels of one box of x: 64, 32 or 16
//   CONV_CONSUMERS CONV_MMA_M      tile rows (filters) = 64 * CONSUMERS * MMA_M
//   CONV_IN_TURN                   0 or 1; 1: consumers take items in turn, tile rows = 64 * MMA_M
//   CONV_TILE_N                    a multiple of CONV_SLICE: 64, 96, 128, 160, 192, 256; at most 8 slices
//   CONV_STAGES                    ring depth
//   CONV_CLUSTER                   blocks of a cluster; several: all items are whole tiles, IN_TURN is 0, PRODUCTS 1,
//                                  and the ring has at least tile rows * TILE_N * 4 bytes
//   CONV_ITEMS CONV_SPLITS         number of items and of splits in the schedule
//   CONV_WAYS                      groups of threads that share the parts of a tile in conv_wgrad_reduce
//   CONV_BIAS_GRAD NIXIE_BF16      0 or 1
//   NIXIE_PRODUCTS                 as in ptx.cuh, of TILE_N columns and of 8
//   CONV_PREFETCH                  0 or 1; 1: Body has void prefetch(int position, int channel, int count) const
//   CONV_PRODUCTS                  1 or 3; 3: at most 64 sums per thread
//   CONV_ROW_CHANNELS CONV_ROW_S   if rows are packed: channels of the layer and the width of its window; else 0
// Body, defined before this file, takes the sums: void load(int position, int channel, Loads&) const and
//   void run(int position, int channel, const Loads&, const float (&sum)[4]) const, where position counts filters and
//   taps; with packed rows one sum at a time. It holds items {tile row | tile column << 16, first stage, stages, slot
//   or -1}, of which block b runs [first_items[b], first_items[b + 1]); splits {tile row | tile column << 16, first
//   slot, slots, 0}; db float[K]; parts float[slots][tile rows * TILE_N]; bias_parts float[items][tile rows].
// Kernel conv_wgrad(x_map, dy_map, [x_low_map, dy_low_map,] body):
//   x_map   im2col {C, W, H, N}, corners {-pad, pad - (S-1) dilation}, box {SLICE, 64 pixels}, element strides
//           {1, stride, stride, 1}, swizzle of SLICE * 2 bytes
//   dy_map  tiled {K, pixels}, box {64, 64}, swizzle 128 bytes
//   grid    one block, or cluster, per worker of the schedule; block (CONSUMERS + 1) * 128; dynamic shared memory
//           1024 + STAGES * planes * (tile rows + TILE_N) * 128 + CONSUMERS * 8192
// Kernel conv_wgrad_reduce(body):
//   grid    (SPLITS + (BIAS_GRAD ? rows of tiles * tile rows / 32 : 0), MMA_M * TILE_N / 8), not launched if empty;
//           block: WAYS times the threads that share a tile
#pragma once
#include "ptx.cuh"

constexpr int kSlice = CONV_SLICE, kSliceBytes = kSlice * 2, kChannelSlices = (CONV_C + kSlice - 1) / kSlice;
constexpr int kSlices = CONV_R * CONV_S * kChannelSlices, kColumns = kSlices * kSlice;
constexpr int kStages = CONV_STAGES, kConsumers = CONV_CONSUMERS, kMmaM = CONV_MMA_M, kTileN = CONV_TILE_N;
constexpr int kSharing = CONV_IN_TURN ? 1 : kConsumers, kTileThreads = kSharing * 128;  // per tile
constexpr int kTileM = 64 * kSharing * kMmaM, kSlicesPerTile = kTileN / kSlice;
constexpr int kPlanes = CONV_PRODUCTS == 3 ? 2 : 1;
constexpr int kBytesA = kTileM * 128, kPlaneBytes = kBytesA + kTileN * 128, kStageBytes = kPlanes * kPlaneBytes;
constexpr int kTilesN = (kSlices + kSlicesPerTile - 1) / kSlicesPerTile, kTilesM = (CONV_K + kTileM - 1) / kTileM;
constexpr Swizzle kSwizzle = kSlice == 64 ? Swizzle::b128 : kSlice == 32 ? Swizzle::b64 : Swizzle::b32;
constexpr int kLines = 1, kPositions = CONV_R * (CONV_ROW_CHANNELS ? CONV_ROW_S : CONV_S), kOtherRegisters = 40;
static_assert(CONV_C % 8 == 0 && kTileN % kSlice == 0 && (kPlanes == 1 || !CONV_BIAS_GRAD));
#include "wgrad_block.cuh"

NIXIE_DEVICE void produce(const Maps& maps, const Shared& shared, const int4* items, int count, volatile int& begun) {
  Ring<kStages> ring;
  for (int i = 0; i < count; i++) {
    if (kCluster > 1 && i > 0) barrier_wait_cluster(shared.read, (i - 1) & 1);  // it holds sums of the last item
    if (CONV_PREFETCH) begun = i + 1;
    Item item(items[i]);
    int c[kSlicesPerTile], r[kSlicesPerTile], s[kSlicesPerTile];
#pragma unroll
    for (int j = 0; j < kSlicesPerTile; j++) {
      int slice = item.n * kSlicesPerTile + j, tap = slice / kChannelSlices;
      r[j] = tap / CONV_S, s[j] = tap - r[j] * CONV_S;
      c[j] = item.group * CONV_C + (slice - tap * kChannelSlices) * kSlice;
    }
    // Boxes past the last column or filter are not loaded: their results are not stored.
    const int boxes = min(kTileM / 64, (CONV_K - item.m * kTileM + 63) / 64),
              slices = min(kSlicesPerTile, kSlices - item.n * kSlicesPerTile);
    const u32 bytes = kPlanes * (boxes * 8192 + slices * 64 * kSliceBytes);
    for (int k = 0; k < item.count; k++, ring.next()) {
      int pixel = (item.first + k) * 64, image = pixel / (CONV_P * CONV_Q), rest = pixel - image * (CONV_P * CONV_Q);
      int p = rest / CONV_Q, q = rest - p * CONV_Q;
      u32 a = shared.ring + ring.stage * kStageBytes, bar = shared.full + 8 * ring.stage;
      barrier_wait(shared.empty + 8 * ring.stage, ring.parity ^ 1);
      barrier_expect(bar, bytes);
#pragma unroll
      for (int plane = 0; plane < kPlanes; plane++, a += kPlaneBytes) {
#pragma unroll
        for (int j = 0; j < kTileM / 64; j++)
          if (j < boxes)
            copy_box_2d(a + j * 8192, maps.dy[plane], bar, item.group * CONV_K + item.m * kTileM + j * 64, pixel);
#pragma unroll
        for (int j = 0; j < kSlicesPerTile; j++)
          if (j < slices)
            copy_im2col(a + kBytesA + j * 64 * kSliceBytes, maps.x[plane], bar, c[j], q * CONV_STRIDE_W - CONV_PAD_W,
                        p * CONV_STRIDE_H - CONV_PAD_H, image, s[j] * CONV_DILATION_W, r[j] * CONV_DILATION_H);
      }
    }
  }
}

NIXIE_DEVICE bool locate(const Item& item, int, int of_tile, int& tap, int& c) {
  constexpr int kTapColumns = kChannelSlices * kSlice;
  const int column = item.n * kTileN + of_tile;
  tap = column / kTapColumns, c = column - tap * kTapColumns;
  if ((kColumns % kTileN != 0 && column >= kColumns) || (kTapColumns != CONV_C && c >= CONV_C)) return false;
#if CONV_ROW_CHANNELS
  const int s = c / CONV_ROW_CHANNELS;
  if (s >= CONV_ROW_S) return false;
  tap = tap * CONV_ROW_S + s, c -= s * CONV_ROW_CHANNELS;
#endif
  return true;
}

struct Operands {
  Shared shared;
  int group;
  NIXIE_DEVICE Operands(const Shared& shared, int consumer) : shared(shared), group(CONV_IN_TURN ? 0 : consumer) {}
  NIXIE_DEVICE u32 a(int stage) const { return shared.ring + stage * kStageBytes + group * kMmaM * 8192; }
  NIXIE_DEVICE u32 b(int stage) const { return shared.ring + stage * kStageBytes + kBytesA; }
};

// Adds all products of two planes of a stage; add = false starts from zero.
NIXIE_DEVICE void multiply_stage(float (&sum)[kMmaM][kTileN / 2], u32 a, u32 b, bool add) {
#pragma unroll
  for (int i = 0; i < 4; i++) {  // 16 pixels each
#pragma unroll
    for (int m = 0; m < kMmaM; m++)
      wgmma<1, 1>(sum[m], operand<Swizzle::b128>(a + m * 8192 + i * 2048, 8192, 1024),
                  operand<kSwizzle>(b + i * 16 * kSliceBytes, 64 * kSliceBytes, 8 * kSliceBytes), add || i != 0);
  }
}

// Computes the sums of one item, over all its stages.
NIXIE_DEVICE void accumulate_plane(Sums& sums, Ring<kStages>& ring, const Item& item, const Operands& at,
                                   const Turn& turn) {
  bool leader = threadIdx.x % 128 == 0;
#pragma unroll
  for (int i = 0; i < kMmaM * 4; i++) sums.bias[i / 4][i % 4] = 0;
  turn.wait();
  for (int k = 0; k < item.count; k++) {
    const u32 a = at.a(ring.stage), b = at.b(ring.stage);
    bool bias_turn = CONV_BIAS_GRAD && (item.first + k) % kTilesN == item.n;
    barrier_wait(at.shared.full + 8 * ring.stage, ring.parity);
#pragma unroll
    for (int m = 0; m < kMmaM; m++) pin(sums.tile[m]), pin(sums.bias[m]);
    wgmma_begin();
    multiply_stage(sums.tile, a, b, k != 0);
    if (bias_turn) {
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < 4 * kMmaM; i++)
        wgmma<1, 0>(sums.bias[i / 4], operand<Swizzle::b128>(a + i / 4 * 8192 + i % 4 * 2048, 8192, 1024),
                    operand<Swizzle::none>(at.shared.ones, 128, 128), true);
    }
    wgmma_commit();
    wgmma_wait<1>();  // the previous stage has been read: release it
    if (k > 0 && leader) barrier_arrive(at.shared.empty + 8 * ring.previous());
    ring.next();
  }
  turn.pass();
  wgmma_wait<0>();
  if (leader) barrier_arrive(at.shared.empty + 8 * ring.previous());
#pragma unroll
  for (int m = 0; m < kMmaM; m++) pin(sums.tile[m]), pin(sums.bias[m]);
}

// The same for two planes.
NIXIE_DEVICE void accumulate_planes(Sums& sums, Ring<kStages>& ring, const Item& item, const Operands& at,
                                    const Turn& turn) {
  bool leader = threadIdx.x % 128 == 0;
  float high[kMmaM][kTileN / 2], cross[kMmaM][kTileN / 2];
#pragma unroll
  for (int i = 0; i < kMmaM * kTileN / 2; i++) sums.tile[i / (kTileN / 2)][i % (kTileN / 2)] = 0;
  turn.wait();
  for (int k = 0; k < item.count; k++) {
    const u32 a = at.a(ring.stage), b = at.b(ring.stage);
    barrier_wait(at.shared.full + 8 * ring.stage, ring.parity);
#pragma unroll
    for (int m = 0; m < kMmaM; m++) pin(high[m]), pin(cross[m]);
    wgmma_begin();
    multiply_stage(high, a, b, false);
    wgmma_commit();
    multiply_stage(cross, a, b + kPlaneBytes, k != 0);
    multiply_stage(cross, a + kPlaneBytes, b, true);
    wgmma_commit();
    wgmma_wait<1>();  // the products of the high planes, and all of the previous stage's
#pragma unroll
    for (int m = 0; m < kMmaM; m++) pin(high[m]);
    if (k > 0 && leader) barrier_arrive(at.shared.empty + 8 * ring.previous());
    ring.next();
#pragma unroll
    for (int i = 0; i < kMmaM * kTileN / 2; i++)
      sums.tile[i / (kTileN / 2)][i % (kTileN / 2)] += high[i / (kTileN / 2)][i % (kTileN / 2)];
  }
  turn.pass();
  wgmma_wait<0>();
  if (leader) barrier_arrive(at.shared.empty + 8 * ring.previous());
#pragma unroll
  for (int m = 0; m < kMmaM; m++) pin(cross[m]);
#pragma unroll
  for (int i = 0; i < kMmaM * kTileN / 2; i++)
    sums.tile[i / (kTileN / 2)][i % (kTileN / 2)] += 0x1p-11f * cross[i / (kTileN / 2)][i % (kTileN / 2)];
}

NIXIE_DEVICE void accumulate(Sums& sums, Ring<kStages>& ring, const Item& item, const Operands& at, const Turn& turn) {
  if (kPlanes == 2)
    accumulate_planes(sums, ring, item, at, turn);
  else
    accumulate_plane(sums, ring, item, at, turn);
}

#if CONV_CLUSTER > 1
#define CLUSTERED __cluster_dims__(CONV_CLUSTER, 1, 1)
#else
#define CLUSTERED
#endif
#if CONV_PRODUCTS == 3
extern "C" __global__ void CLUSTERED __launch_bounds__((kConsumers + 1) * 128, 1)
    conv_wgrad(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy,
               const __grid_constant__ TensorMap x_low, const __grid_constant__ TensorMap dy_low,
               const __grid_constant__ Body body) {
  run_block<Operands>({{&x, &x_low}, {&dy, &dy_low}}, body);
}
#else
extern "C" __global__ void CLUSTERED __launch_bounds__((kConsumers + 1) * 128, 1)
    conv_wgrad(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap dy,
               const __grid_constant__ Body body) {
  run_block<Operands>({{&x}, {&dy}}, body);
}
#endif
