// Convolution on Hopper's tensor cores, as forward pass and as input gradient: y[pixel, k] = sum over taps, channels
// of x[pixel + tap, c] * w[k, tap, c], then bias, ReLU or a ReLU's gradient, rounding and one swizzled store.
//
// Layout   x, y channels-last, w [K][R][S][C], 16-bit storage, fp32 sums. An implicit matrix product: M = output
//          pixels, N = filters, reduction = taps x channels in slices of CONV_SLICE channels of a tap, 64 to a stage.
// Roles    persistent blocks; one producer thread fills a ring of CONV_STAGES stages by TMA (im2col for x: padding,
//          image borders and the last partial tile read zero); CONV_CONSUMERS warpgroups multiply, each its own
//          64 * CONV_MMA_M rows, and store by themselves, so that one's epilogue runs under the other's products.
// Gradient the input gradient is the same sum over dy with the filter flipped and w read transposed in place
//          (CONV_TRANSPOSED_W = 1: this kernel's C and K are then the layer's K and C): no copy of w is made.
// Limits   strides, padding, dilation as im2col TMA has them (corners in [-128, 127], tap offsets < 256); C and K
//          multiples of 8; one group; the input gradient only for stride 1.
//
// Measured on an H200 (docs/performance-log.md), share of the matrix rate of the run: 0.9 to 1.0 where N >= 128 and a
// tile has 18 stages or more, 0.85 for 5x5 with C = 64, 0.55 for N = 64 and 96, which read x from L2 at its limit of
// 7 TB/s. What the ideas bought: an epilogue through shared memory and TMA, each warpgroup by itself: 5.3 -> 2.4 us a
// tile (VGG conv3 212 -> 166 us). Three consumers of 64 x 128: better tile counts (AlexNet conv4 75 -> 57 us). The
// gate fetched by TMA under the products, not loaded in the epilogue: 3 to 8 %. CONV_DEFER: 0 to 4 % forward, nothing
// with a gate. Four store buffers for three stages: slower.
//
// Compile-time, all required:
//   CONV_C CONV_K CONV_R CONV_S     channels, filters, window
//   CONV_P CONV_Q                   output height and width
//   CONV_STRIDE_H/_W CONV_PAD_H/_W CONV_DILATION_H/_W
//   CONV_SLICE                      channels of one box: 64, or 32 / 16 where C is no multiple of 64
//   CONV_CONSUMERS CONV_MMA_M       tile rows = 64 * CONSUMERS * MMA_M; sums a thread = MMA_M * TILE_N / 2, at most
//                                   128 with one or two consumers, 64 with three
//   CONV_TILE_N                     32, 48, 64, 96, 128, 192, 256; no multiple of 64 only where K <= TILE_N
//   CONV_STAGES CONV_STAGING        ring depth; store buffers of 8 KB per warpgroup, 1 or 2
//   CONV_DEFER                      1: a tile is stored under the products of the next one, for up to 96 sums a
//                                   thread (no registers for more)
//   CONV_TRANSPOSED_W CONV_BIAS CONV_RELU CONV_GATE NIXIE_BF16    0 or 1
// Kernel conv_fprop(x_map, w_map, y_map, gate_map, bias, pixels):
//   x_map     im2col, 16-bit {C, W, H, N}, corners {-pad, pad - (S-1) dilation}, box {SLICE, tile rows}, element
//             strides {1, stride, stride, 1}, swizzle of SLICE * 2 bytes
//   w_map     tiled {C, R*S, K}, box {SLICE, 1, TILE_N}, the same swizzle; transposed: tiled over the layer's own w,
//             that is {K, R*S, C} in this kernel's letters, box {64, 1, 64}, swizzle 128 bytes, SLICE = 64
//   y_map     tiled {K, pixels}, box {64, 64}, swizzle 128 bytes
//   gate_map  if CONV_GATE: a map like y_map over the gate, 16-bit [pixels][K]: y is zeroed where it is not above
//             zero; otherwise any map
//   bias      float[K] if CONV_BIAS, 8-byte aligned
//   pixels    N * P * Q
//   grid      at most one block per multiprocessor; block (CONSUMERS + 1) * 128; dynamic shared memory 1024 + STAGES *
//             (tile rows + TILE_N, rounded up to 64 if transposed) * 128 + CONSUMERS * STAGING * 8192
#pragma once
#include "ptx.cuh"

constexpr int kSlice = CONV_SLICE, kSlicesPerStage = 64 / kSlice, kSliceBytes = kSlice * 2;
constexpr int kChannelSlices = (CONV_C + kSlice - 1) / kSlice, kSlices = CONV_R * CONV_S * kChannelSlices;
constexpr int kBlocks = (kSlices + kSlicesPerStage - 1) / kSlicesPerStage;  // stages that one tile consumes
constexpr int kStages = CONV_STAGES, kConsumers = CONV_CONSUMERS, kMmaM = CONV_MMA_M, kTileN = CONV_TILE_N;
constexpr int kTileM = 64 * kConsumers * kMmaM, kTilesN = (CONV_K + kTileN - 1) / kTileN;
constexpr int kRowsB = CONV_TRANSPOSED_W ? (kTileN + 63) / 64 * 64 : kTileN;
constexpr int kBytesA = kTileM * 128, kStageBytes = kBytesA + kRowsB * 128;
constexpr int kChunksN = (kTileN + 63) / 64, kChunks = kMmaM * kChunksN, kStaging = CONV_STAGING,
              kChunkBytes = 64 * 128;
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

// Bias, ReLU and rounding of one 64 x 64 chunk of a warpgroup's sums. Word 4 i + w: columns 16 i + 8 (w >> 1) and rows
// 8 (w & 1) of the thread's fragment.
NIXIE_DEVICE void round_chunk(u32 (&word)[16], const float (&sum)[kTileN / 2], int j, const float* bias, int n0) {
#pragma unroll
  for (int i = 0; i < 16; i++) {
    int block = j * 8 + i / 4 * 2 + i % 4 / 2, n = n0 + block * 8 + threadIdx.x % 4 * 2;
    if (block * 8 >= kTileN) break;
    const float* v = &sum[block * 4 + i % 2 * 2];
    bool inside = CONV_BIAS && (CONV_K % kTileN == 0 || n < CONV_K);
    float2 add = inside ? *reinterpret_cast<const float2*>(bias + n) : float2{};
    word[i] = CONV_RELU ? pack_relu(v[0] + add.x, v[1] + add.y) : pack(v[0] + add.x, v[1] + add.y);
  }
}

// Stores one warpgroup's part of a tile, whose corner is (pixel, n0), chunk by chunk.
struct Store {
  const TensorMap *y, *gate;
  u32 staging, gate_bars;
  int group, pixel = 0, n0 = 0;
  u32 parities = 0;  // of the gates' barriers, one bit a buffer

  NIXIE_DEVICE u32 buffer(int chunk) const { return staging + chunk % kStaging * kChunkBytes; }
  NIXIE_DEVICE int column(int chunk) const { return n0 + chunk % kChunksN * 64; }
  NIXIE_DEVICE int row(int chunk) const { return pixel + chunk / kChunksN * 64; }
  NIXIE_DEVICE bool leader() const { return threadIdx.x % 128 == 0; }

  // Starts the copy of a chunk's gate into the buffer that the chunk will be stored from; kPending of this warpgroup's
  // last stores may still be reading other buffers.
  template <int kPending>
  NIXIE_DEVICE void fetch_gate(int chunk) {
    if (!CONV_GATE || !leader()) return;
    u32 bar = gate_bars + 8 * (chunk % kStaging);
    store_wait_read<kPending>();
    barrier_expect(bar, kChunkBytes);
    copy_box_2d(buffer(chunk), gate, bar, column(chunk), row(chunk));
  }

  NIXIE_DEVICE void send(int chunk, const u32 (&word)[16]) {
    if (CONV_GATE) {
      int i = chunk % kStaging;
      barrier_wait(gate_bars + 8 * i, parities >> i & 1);
      parities ^= 1u << i;
    } else {
      if (leader()) store_wait_read<kStaging - 1>();
      named_barrier(1 + group, 128);  // the store that used this buffer last has read it
    }
    write_chunk(word, buffer(chunk), kTileN - chunk % kChunksN * 64);
    fence_async_proxy();
    named_barrier(1 + group, 128);
    if (!leader()) return;
    store_box_2d(y, buffer(chunk), column(chunk), row(chunk));  // rows past `pixels` and columns past K are not written
    store_commit();
  }

  // 64 x 64 values to shared memory, swizzled as TMA stores them, through the gate if there is one.
  static NIXIE_DEVICE void write_chunk(const u32 (&word)[16], u32 buffer, int columns) {
    int lane = threadIdx.x % 128, row = lane / 32 * 16 + lane % 16,
        half = lane % 32 / 16;  // whose 16 bytes a lane addresses
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (i * 16 >= columns) break;
      u32 address = buffer + row * 128 + (((i * 2 + half) ^ (row & 7)) << 4), gates[4], out[4];
      if (CONV_GATE) load_matrix_x4(address, gates);
#pragma unroll
      for (int w = 0; w < 4; w++) out[w] = CONV_GATE ? where_positive(gates[w], word[i * 4 + w]) : word[i * 4 + w];
      store_matrix_x4(address, out[0], out[1], out[2], out[3]);
    }
  }
};

NIXIE_DEVICE void consume(Store store, const float* bias, u32 shared, Barriers bars, int tiles) {
  // With CONV_DEFER a chunk is stored every kStride stages of the next tile (fetch its gate, then send it).
  constexpr int kStride = CONV_GATE ? 2 : 1, kSteps = CONV_DEFER ? kChunks * kStride : 0;
  constexpr int kEarly = kChunks < kStaging ? kChunks : kStaging;  // gates fetched while the tile is still multiplied
  float sum[kMmaM][kTileN / 2];
  u32 words[CONV_DEFER ? kChunks : 1][16];
  Ring<kStages> ring;
  const bool leader = store.leader();
  bool stored = true;  // the tile before
  auto begin_stage = [&](int block) {
    u32 stage = shared + ring.stage * kStageBytes;
    barrier_wait(bars.full_at(ring.stage), ring.parity);
#pragma unroll
    for (int m = 0; m < kMmaM; m++) pin(sum[m]);
    wgmma_begin();
    multiply_stage(sum, stage + store.group * kMmaM * 64 * kSliceBytes, stage + kBytesA, block);
    wgmma_commit();
  };
  auto end_stage = [&](int block) {
    wgmma_wait<1>();  // the stage before is read: hand it back
    if (block > 0 && leader) barrier_arrive(bars.empty_at(ring.previous()));
    ring.next();
  };
  auto store_step = [&](int step) {
    if (CONV_GATE && step % kStride == 0) return store.fetch_gate<kStaging - 1>(step / kStride);
    store.send(step / kStride, words[step / kStride % (CONV_DEFER ? kChunks : 1)]);
  };
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int pixel = tile / kTilesN * kTileM + store.group * kMmaM * 64, n0 = tile % kTilesN * kTileN;
#pragma unroll
    for (int block = 0; block < kSteps; block++) {  // the tile before is stored under the first products of this one
      if (block < kBlocks) begin_stage(block);
      if (!stored) store_step(block);
      if (block < kBlocks) end_stage(block);
    }
    store.pixel = pixel, store.n0 = n0, stored = false;
    for (int block = kSteps; block < kBlocks; block++) {
      begin_stage(block);
      if (CONV_GATE && !CONV_DEFER && block == kBlocks / 2)
        for (int chunk = 0; chunk < kEarly; chunk++) store.fetch_gate<0>(chunk);
      end_stage(block);
    }
    wgmma_wait<0>();
    if (leader) barrier_arrive(bars.empty_at(ring.previous()));
#pragma unroll
    for (int m = 0; m < kMmaM; m++) pin(sum[m]);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; chunk++) {
      u32(&word)[16] = words[CONV_DEFER ? chunk : 0];
      round_chunk(word, sum[chunk / kChunksN], chunk % kChunksN, bias, n0);
      if (CONV_DEFER) continue;
      store.send(chunk, word);
      if (chunk + kStaging < kChunks) store.fetch_gate<0>(chunk + kStaging);
    }
  }
  if (CONV_DEFER && !stored) {
#pragma unroll
    for (int step = 0; step < kSteps; step++) store_step(step);
  }
  if (leader) store_wait<0>();
}

extern "C" __global__ void __launch_bounds__((kConsumers + 1) * 128, 1)
    conv_fprop(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
               const __grid_constant__ TensorMap y, const __grid_constant__ TensorMap gate, const float* bias,
               int pixels) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full[kStages], empty[kStages], gates[kConsumers * kStaging];
  u32 shared = (shared_address(dynamic) + 1023) & ~1023u;
  Barriers bars{shared_address(full), shared_address(empty)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(bars.full_at(i), 1);
      barrier_init(bars.empty_at(i), kConsumers);
    }
    for (int i = 0; i < kConsumers * kStaging; i++) barrier_init(shared_address(&gates[i]), 1);
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
    int group = role - 1;
    u32 staging = shared + kStages * kStageBytes + group * kStaging * kChunkBytes;
    consume({&y, &gate, staging, shared_address(&gates[group * kStaging]), group}, bias, shared, bars, tiles);
  }
}
