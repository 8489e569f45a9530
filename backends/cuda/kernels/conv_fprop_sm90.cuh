// Convolution on Hopper's tensor cores, as forward pass and as input gradient: y[pixel, k] = sum over taps and channels
// of x[pixel + tap, c] * w[k, tap, c], then bias, ReLU or a ReLU's gradient, rounding and one swizzled store.
//
// Layout   x, y channels-last, w [K][R][S][C], 16-bit storage, fp32 sums. An implicit matrix product: M = output
// pixels,
//          N = filters, reduction = taps x channels in slices of CONV_SLICE channels of one tap, 64 deep to a stage.
// Roles    persistent blocks; one producer thread fills a ring of CONV_STAGES stages by TMA (im2col for x: padding,
// image
//          borders and the last partial tile read zero); CONV_CONSUMERS warpgroups multiply, each its own 64 *
//          CONV_MMA_M rows, and store by themselves through CONV_STAGING shared buffers, so that one warpgroup's
//          epilogue runs under the other's products and under the loads of the next tile.
// Gradient the input gradient is the same sum over dy with the filter flipped and w read transposed in place
//          (CONV_TRANSPOSED_W = 1: the C and K of this kernel are then the layer's K and C): no copy of w is made.
// Limits   strides, padding, dilation as im2col TMA has them (corners in [-128, 127], tap offsets < 256); C and K
// multiples
//          of 8; one group; input gradient only for stride 1.
//
// Compile-time, all required:
//   CONV_C CONV_K CONV_R CONV_S     channels, filters, window
//   CONV_P CONV_Q                   output height and width
//   CONV_STRIDE_H/_W CONV_PAD_H/_W CONV_DILATION_H/_W
//   CONV_SLICE                      channels of one box: 64, or 32 / 16 where C is no multiple of 64
//   CONV_CONSUMERS CONV_MMA_M       tile rows = 64 * CONSUMERS * MMA_M
//   CONV_TILE_N                     64, 96 (only K <= 96), 128, 192, 256
//   CONV_STAGES CONV_STAGING        ring depth; store buffers of 8 KB per warpgroup, 1 or 2
//   CONV_TRANSPOSED_W CONV_BIAS CONV_RELU CONV_GATE NIXIE_BF16    0 or 1
// Kernel conv_fprop(x_map, w_map, y_map, bias, gate, pixels):
//   x_map   im2col, 16-bit {C, W, H, N}, corners {-pad, pad - (S-1) dilation}, box {SLICE, tile rows}, element strides
//           {1, stride, stride, 1}, swizzle of SLICE * 2 bytes
//   w_map   tiled {C, R*S, K}, box {SLICE, 1, TILE_N}, the same swizzle; transposed: tiled over the layer's own w, that
//   is
//           {K, R*S, C} in this kernel's letters, box {64, 1, SLICE}, swizzle 128 bytes, SLICE = 64
//   y_map   tiled {K, pixels}, box {64, 64}, swizzle 128 bytes
//   bias    float[K] if CONV_BIAS; gate: 16-bit [pixels][K] if CONV_GATE: y is zeroed where gate is not above zero
//   pixels  N * P * Q
//   grid    at most one block per multiprocessor; block (CONSUMERS + 1) * 128; dynamic shared memory
//           1024 + STAGES * (tile rows + TILE_N rounded up to 64 if transposed) * 128 + CONSUMERS * STAGING * 8192
#pragma once
#include "ptx.cuh"

constexpr int kSlice = CONV_SLICE, kSlicesPerStage = 64 / kSlice, kSliceBytes = kSlice * 2;
constexpr int kChannelSlices = (CONV_C + kSlice - 1) / kSlice, kSlices = CONV_R * CONV_S * kChannelSlices;
constexpr int kBlocks = (kSlices + kSlicesPerStage - 1) / kSlicesPerStage;  // stages that one tile consumes
constexpr int kStages = CONV_STAGES, kConsumers = CONV_CONSUMERS, kMmaM = CONV_MMA_M, kTileN = CONV_TILE_N;
constexpr int kTileM = 64 * kConsumers * kMmaM, kTilesN = (CONV_K + kTileN - 1) / kTileN;
constexpr int kRowsB = CONV_TRANSPOSED_W ? (kTileN + 63) / 64 * 64 : kTileN;
constexpr int kBytesA = kTileM * 128, kStageBytes = kBytesA + kRowsB * 128;
constexpr int kChunksN = (kTileN + 63) / 64, kStaging = CONV_STAGING, kChunkBytes = 64 * 128;
constexpr Swizzle kSwizzle = kSlice == 64 ? Swizzle::b128 : kSlice == 32 ? Swizzle::b64 : Swizzle::b32;
static_assert(!CONV_TRANSPOSED_W || kSlice == 64, "a transposed filter is read in boxes of 64 x 64");

struct Barriers {
  u32 full, empty;
  NIXIE_DEVICE u32 full_at(int stage) const { return full + 8 * stage; }
  NIXIE_DEVICE u32 empty_at(int stage) const { return empty + 8 * stage; }
};

// Loads one slice: channels [c, c + kSlice) of one tap, for all rows and columns of the tile. A slice past the last,
// which fills up the last stage, lies outside both maps and reads zero.
NIXIE_DEVICE void load_slice(const TensorMap* x, const TensorMap* w, u32 a, u32 b, u32 bar, int slice, int n0,
                             int image, int h, int v) {
  int tap = slice / kChannelSlices, c = (slice - tap * kChannelSlices) * kSlice;
  int r = tap / CONV_S, s = tap - r * CONV_S;
  int x_c = kSlices % kSlicesPerStage != 0 && slice >= kSlices ? kChannelSlices * kSlice : c;
  copy_im2col(a, x, bar, x_c, v, h, image, s * CONV_DILATION_W, r * CONV_DILATION_H);
  if (CONV_TRANSPOSED_W) {
#pragma unroll
    for (int i = 0; i < kRowsB / 64; i++) copy_box_3d(b + i * 8192, w, bar, n0 + 64 * i, CONV_R * CONV_S - 1 - tap, c);
  } else {
    copy_box_3d(b, w, bar, c, tap, n0);
  }
}

NIXIE_DEVICE void produce(const TensorMap* x, const TensorMap* w, u32 shared, Barriers bars, int tiles) {
  Ring<kStages> ring;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    int n0 = tile % kTilesN * kTileN, pixel = tile / kTilesN * kTileM;
    int image = pixel / (CONV_P * CONV_Q), rest = pixel - image * (CONV_P * CONV_Q), p = rest / CONV_Q,
        q = rest - p * CONV_Q;
    int h = p * CONV_STRIDE_H - CONV_PAD_H, v = q * CONV_STRIDE_W - CONV_PAD_W;
    for (int block = 0; block < kBlocks; block++, ring.next()) {
      u32 a = shared + ring.stage * kStageBytes, b = a + kBytesA, bar = bars.full_at(ring.stage);
      barrier_wait(bars.empty_at(ring.stage), ring.parity ^ 1);
      barrier_expect(bar, kStageBytes);
      for (int i = 0; i < kSlicesPerStage; i++)
        load_slice(x, w, a + i * kTileM * kSliceBytes, b + i * kTileN * kSliceBytes, bar, block * kSlicesPerStage + i,
                   n0, image, h, v);
    }
  }
}

// All products of one stage into the sums of one warpgroup, which owns kMmaM * 64 rows from `a` on.
NIXIE_DEVICE void multiply_stage(float (&sum)[kMmaM][kTileN / 2], u32 a, u32 b, int block) {
#pragma unroll
  for (int i = 0; i < kSlicesPerStage; i++) {
#pragma unroll
    for (int k = 0; k < kSlice / 16; k++) {
      u64 right = CONV_TRANSPOSED_W ? operand<Swizzle::b128>(b + k * 2048, 8192, 1024)
                                    : operand<kSwizzle>(b + i * kTileN * kSliceBytes + k * 32, 16, 8 * kSliceBytes);
#pragma unroll
      for (int m = 0; m < kMmaM; m++)
        wgmma<0, CONV_TRANSPOSED_W>(
            sum[m],
            operand<kSwizzle>(a + i * kTileM * kSliceBytes + m * 64 * kSliceBytes + k * 32, 16, 8 * kSliceBytes), right,
            (block | i | k) != 0);
    }
  }
}

// One 64 x 64 chunk of the gate, 64 bytes a thread: prefetched while the chunk before is stored.
NIXIE_DEVICE void load_gate(uint4 (&gate)[4], const u16* from, int pixel, int n, int pixels, int lane) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int row = i * 16 + lane / 8, column = lane % 8 * 8;
    bool inside = pixel + row < pixels && n + column < CONV_K;
    gate[i] =
        inside ? *reinterpret_cast<const uint4*>(from + static_cast<u64>(pixel + row) * CONV_K + n + column) : uint4{};
  }
}

// Finishes chunk (m, j) of one warpgroup: 64 rows x 64 columns of sums to 16 bits in shared memory, swizzled as TMA
// stores them.
NIXIE_DEVICE void stage_chunk(const float (&sum)[kTileN / 2], int j, u32 buffer, const float* bias, int n0, int lane) {
  int row = lane / 32 * 16 + lane % 16,
      half = lane % 32 / 16;  // the row and 16-byte column whose address this lane gives
#pragma unroll
  for (int pair = 0; pair < 4; pair++) {
    if ((j * 4 + pair) * 16 >= kTileN) break;
    u32 address = buffer + row * 128 + (((pair * 2 + half) ^ (row & 7)) << 4), word[4], gate[4];
    if (CONV_GATE) load_matrix_x4(address, gate);
#pragma unroll
    for (int i = 0; i < 4; i++) {  // word i: rows + 8 * (i & 1), columns + 8 * (i >> 1)
      int at = (j * 8 + pair * 2 + (i >> 1)) * 4 + (i & 1) * 2,
          n = n0 + (j * 8 + pair * 2 + (i >> 1)) * 8 + lane % 4 * 2;
      float low = sum[at], high = sum[at + 1];
      if (CONV_BIAS && (CONV_K % kTileN == 0 || n < CONV_K)) low += bias[n], high += bias[n + 1];
      word[i] = CONV_RELU ? pack_relu(low, high) : pack(low, high);
      if (CONV_GATE) word[i] = where_positive(gate[i], word[i]);
    }
    store_matrix_x4(address, word[0], word[1], word[2], word[3]);
  }
}

// Bias, ReLU, gate, rounding and store of one warpgroup's part of a tile.
NIXIE_DEVICE void finish_tile(float (&sum)[kMmaM][kTileN / 2], const TensorMap* y, const float* bias, const u16* gate,
                              u32 staging, int group, int pixel, int n0, int pixels) {
  int lane = threadIdx.x % 128;
  uint4 gates[4];
  if (CONV_GATE) load_gate(gates, gate, pixel, n0, pixels, lane);
#pragma unroll
  for (int chunk = 0; chunk < kMmaM * kChunksN; chunk++) {
    int m = chunk / kChunksN, j = chunk % kChunksN;
    u32 buffer = staging + chunk % kStaging * kChunkBytes;
    if (lane == 0) store_wait_read<kStaging - 1>();
    named_barrier(1 + group, 128);  // the store that used this buffer last has read it
    if (CONV_GATE) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int row = i * 16 + lane / 8;
        store_shared(buffer + row * 128 + ((lane % 8 ^ (row & 7)) << 4), gates[i]);
      }
      if (chunk + 1 < kMmaM * kChunksN)
        load_gate(gates, gate, pixel + (chunk + 1) / kChunksN * 64, n0 + (chunk + 1) % kChunksN * 64, pixels, lane);
      named_barrier(1 + group, 128);
    }
    stage_chunk(sum[m], j, buffer, bias, n0, lane);
    fence_async_proxy();
    named_barrier(1 + group, 128);
    if (lane == 0) {
      store_box_2d(y, buffer, n0 + j * 64, pixel + m * 64);  // rows past `pixels` and columns past K are not written
      store_commit();
    }
  }
}

NIXIE_DEVICE void consume(const TensorMap* y, const float* bias, const u16* gate, u32 shared, Barriers bars, int group,
                          int tiles, int pixels) {
  float sum[kMmaM][kTileN / 2];
  Ring<kStages> ring;
  bool leader = threadIdx.x % 128 == 0;
  u32 staging = shared + kStages * kStageBytes + group * kStaging * kChunkBytes;
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    for (int block = 0; block < kBlocks; block++) {
      u32 stage = shared + ring.stage * kStageBytes;
      barrier_wait(bars.full_at(ring.stage), ring.parity);
#pragma unroll
      for (int m = 0; m < kMmaM; m++) pin(sum[m]);
      wgmma_begin();
      multiply_stage(sum, stage + group * kMmaM * 64 * kSliceBytes, stage + kBytesA, block);
      wgmma_commit();
      wgmma_wait<1>();  // the stage before is read: hand it back
      if (block > 0 && leader) barrier_arrive(bars.empty_at(ring.previous()));
      ring.next();
    }
    wgmma_wait<0>();
    if (leader) barrier_arrive(bars.empty_at(ring.previous()));
#pragma unroll
    for (int m = 0; m < kMmaM; m++) pin(sum[m]);
    int pixel = tile / kTilesN * kTileM + group * kMmaM * 64;
    finish_tile(sum, y, bias, gate, staging, group, pixel, tile % kTilesN * kTileN, pixels);
  }
  if (leader) store_wait<0>();
}

extern "C" __global__ void __launch_bounds__((kConsumers + 1) * 128, 1)
    conv_fprop(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
               const __grid_constant__ TensorMap y, const float* bias, const u16* gate, int pixels) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full[kStages], empty[kStages];
  u32 shared = (shared_address(dynamic) + 1023) & ~1023u;
  Barriers bars{shared_address(full), shared_address(empty)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(bars.full_at(i), 1);
      barrier_init(bars.empty_at(i), kConsumers);
    }
    barrier_init_done();
    prefetch_map(&x), prefetch_map(&w), prefetch_map(&y);
  }
  __syncthreads();
  allow_next_kernel();
  wait_previous_kernel();
  int tiles = (pixels + kTileM - 1) / kTileM * kTilesN, role = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (role == 0) {
    if (kConsumers > 1) registers_down<kConsumers == 2 ? 40 : 32>();
    if (threadIdx.x == 0) produce(&x, &w, shared, bars, tiles);
  } else {
    if (kConsumers > 1) registers_up<kConsumers == 2 ? 232 : 160>();
    consume(&y, bias, gate, shared, bars, role - 1, tiles, pixels);
  }
}
