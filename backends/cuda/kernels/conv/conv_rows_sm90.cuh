// Input gradient of layers with few channels on Hopper's tensor cores: dx[h, w, c] = sum over taps (r, s) and filters k
// of dy[h + pad - r, w + pad - s, k] * w[k, r, s, c], then whatever Body does with it.
//
// Idea     With few columns a product reads its rows from L2 too often: conv_fprop reads dy once for each tap, and L2
//          is its bound. Here the columns are the taps of a filter row times a group of channels, z[h, q, (s, c)] = sum
//          over r and k of dy[h + pad - r, q, k] * w[k, r, s, c], so dy is read once for each filter row. Then dx[h, w]
//          is the sum of the S neighbours z[h, w + pad - s, s].
// Layout   dy, dx channels-last, w [K][R][S][C], 16-bit storage, fp32 sums. Implicit GEMM: M = positions
//          (image, h, q) in order, q a column of dy; N = S x CONV_GROUP; reduction = R x K, 64 to a stage.
// Roles    persistent blocks; one producer thread fills a ring of stages by TMA (im2col over dy: rows outside the image
//          read zero); CONV_CONSUMERS warpgroups multiply, each 64 * CONV_MMA_M positions, and each runs the epilogue
//          of its own, which overlaps with another's products. Positions of neighbouring warpgroups overlap by S - 1,
//          so that each has all neighbours of its outputs among its own sums.
// Epilogue 8 channels at a time: sums to shared memory, then for each output S pieces of 8 channels are added and the
//          generated Body runs.
// Limits   stride and dilation 1, padding below the window; C a multiple of CONV_GROUP, K of 8; one group.
//
// Measured on an H200, 5x5: AlexNet conv2 (64 channels) 127 -> 92 us; Overfeat conv2 (96)
// 220 -> 163 us, where the 24 columns of dy are also fewer than dx's 28. 3x3 (VGG conv2) gained nothing, 288 us against
// 275: a tile has six stages there, too few to hide the epilogue.
//
// Body     as for conv_fprop_sm90.cuh, without Fixed, `pixel` a pixel of dx.
// Compile-time, all required:
//   CONV_C CONV_K CONV_R CONV_S     the layer's channels, filters, window
//   CONV_H CONV_W CONV_Q            height and width of x, width of y
//   CONV_POSITIONS                  images * H * Q
//   CONV_PAD_H CONV_PAD_W           the layer's
//   CONV_GROUP                      channels of a tile: 64 or 32; S * GROUP is 160 or 192
//   CONV_CONSUMERS CONV_MMA_M       positions of a warpgroup = 64 * MMA_M
//   CONV_STAGES NIXIE_BF16          ring depth; 0 or 1
//   NIXIE_PRODUCTS                  as in ptx.cuh, of S * GROUP columns
// Kernel conv_rows(dy_map, w_map, body):
//   dy_map  im2col, 16-bit {K, Q, P, N}, corners {0, PAD_H - (R - 1)} to {0, -PAD_H}, box {64, 64 * MMA_M}, swizzle 128
//   w_map   tiled {C, R*S, K}, box {GROUP, 1, 64}, swizzle of GROUP * 2 bytes
//   grid    at most one block per SM; block (CONSUMERS + 1) * 128; dynamic shared memory 1024 + STAGES * (64 * MMA_M *
//           CONSUMERS + S * GROUP) * 128 + CONSUMERS * MMA_M * 64 * S * 32
#pragma once
#include "ptx.cuh"

constexpr int kStages = CONV_STAGES, kConsumers = CONV_CONSUMERS, kMmaM = CONV_MMA_M, kGroup = CONV_GROUP;
constexpr int kRows = 64 * kMmaM,
              kOwn = kRows - (CONV_S - 1);  // positions per warpgroup, and those not shared with the previous one
constexpr int kColumns = CONV_S * kGroup, kBoxBytes = kGroup * 128;
constexpr int kBytesA = kConsumers * kRows * 128, kStageBytes = kBytesA + CONV_S * kBoxBytes;
constexpr int kSlabs = (CONV_K + 63) / 64, kBlocks = CONV_R * kSlabs;  // stages per tile
constexpr int kGroups = CONV_C / kGroup, kShares = (CONV_POSITIONS - (CONV_S - 1) + kOwn - 1) / kOwn;
constexpr int kTiles = (kShares + kConsumers - 1) / kConsumers * kGroups;
constexpr int kTapBytes = kRows * 32;  // the sums of one tap for 8 channels
constexpr Swizzle kSwizzle = kGroup == 64 ? Swizzle::b128 : Swizzle::b64;
static_assert(CONV_C % kGroup == 0);

// The first position of a warpgroup's share.
NIXIE_DEVICE int base_of(int tile, int group) { return (tile / kGroups * kConsumers + group) * kOwn; }

NIXIE_DEVICE void produce(const TensorMap* dy, const TensorMap* w, u32 shared, u32 full, u32 empty) {
  Ring<kStages> ring;
  for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x) {
    int image[kConsumers], h[kConsumers], q[kConsumers];
#pragma unroll
    for (int i = 0; i < kConsumers; i++) {
      const int base = base_of(tile, i), rest = base % (CONV_H * CONV_Q);
      image[i] = base / (CONV_H * CONV_Q), h[i] = rest / CONV_Q + CONV_PAD_H - (CONV_R - 1), q[i] = rest % CONV_Q;
    }
    const int c = tile % kGroups * kGroup;
    for (int block = 0; block < kBlocks; block++, ring.next()) {
      const int r = block / kSlabs, k = block % kSlabs * 64;  // r counts dy's rows, starting at the last filter row's
      const u32 a = shared + ring.stage * kStageBytes, bar = full + 8 * ring.stage;
      barrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);
      barrier_expect(bar, kStageBytes);
#pragma unroll
      for (int i = 0; i < kConsumers; i++) copy_im2col(a + i * kRows * 128, dy, bar, k, q[i], h[i], image[i], 0, r);
#pragma unroll
      for (int s = 0; s < CONV_S; s++)
        copy_box_3d(a + kBytesA + s * kBoxBytes, w, bar, c, (CONV_R - 1 - r) * CONV_S + s, k);
    }
  }
}

// Adds all products of one stage to the sums of one warpgroup, whose rows start at `a`.
NIXIE_DEVICE void multiply_stage(float (&sum)[kMmaM][kColumns / 2], u32 a, u32 b, int block) {
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const u64 right = operand<kSwizzle>(b + k * 16 * kGroup * 2, kBoxBytes, 8 * kGroup * 2);
#pragma unroll
    for (int m = 0; m < kMmaM; m++)
      wgmma<0, 1>(sum[m], operand<Swizzle::b128>(a + m * 8192 + k * 32, 16, 1024), right, (block | k) != 0);
  }
}

// The first output that needs position x or a later one; outputs and positions are counted in order.
NIXIE_DEVICE int output_from(int x) {
  const int row = x / CONV_Q, first = x % CONV_Q - CONV_PAD_W;
  return row * CONV_W + (first > 0 ? first : 0);
}

struct Epilogue {
  const Body& body;
  u32 staging;  // the warpgroup's buffer in shared memory
  int barrier;  // the warpgroup's named barrier, 1 to 15

  NIXIE_DEVICE void meet() const { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); }

  // The address of half of a tap's eight sums at a position. The two halves are swapped every four positions, so that
  // threads that read neighbouring positions have no bank conflicts.
  NIXIE_DEVICE u32 place(int s, int row, int half) const {
    return staging + s * kTapBytes + row * 32 + (half ^ (row / 4 & 1)) * 16;
  }

  NIXIE_DEVICE void write(const float (&sum)[kMmaM][kColumns / 2], int chunk) const {
    const int g = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < kMmaM; m++)
#pragma unroll
      for (int s = 0; s < CONV_S; s++) {
        const float* v = &sum[m][(s * kGroup / 8 + chunk) * 4];
        store_shared(place(s, m * 64 + g, t / 2) + t % 2 * 8, make_float2(v[0], v[1]));
        store_shared(place(s, m * 64 + g + 8, t / 2) + t % 2 * 8, make_float2(v[2], v[3]));
      }
  }

  NIXIE_DEVICE void add_up(int pixel, int base, float (&v)[8]) const {
    const int row = pixel / CONV_W, right = pixel % CONV_W + CONV_PAD_W;
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = 0;
#pragma unroll
    for (int s = 0; s < CONV_S; s++) {
      const int q = right - s, local = row * CONV_Q + q - base;
      if (q < 0 || q >= CONV_Q) continue;
      const float4 low = load_shared(place(s, local, 0)), high = load_shared(place(s, local, 1));
      v[0] += low.x, v[1] += low.y, v[2] += low.z, v[3] += low.w;
      v[4] += high.x, v[5] += high.y, v[6] += high.z, v[7] += high.w;
    }
  }

  NIXIE_DEVICE void operator()(const float (&sum)[kMmaM][kColumns / 2], int base, int c) const {
    const int last = base + kRows;
    const int first_output = base >= CONV_POSITIONS ? 0 : base == 0 ? 0 : output_from(base + CONV_S - 1);
    const int outputs =
        base >= CONV_POSITIONS
            ? 0
            : (last < CONV_POSITIONS ? output_from(last) : CONV_POSITIONS / CONV_Q * CONV_W) - first_output;
#pragma unroll
    for (int chunk = 0; chunk < kGroup / 8; chunk++) {
      meet();
      write(sum, chunk);
      meet();
      for (int i = threadIdx.x % 128; i < outputs; i += 128) {
        const int pixel = first_output + i, channel = c + chunk * 8;
        Body::Loads loads;
        body.load(pixel, channel, loads);
        float v[8];
        add_up(pixel, base, v);
        body.run(pixel, channel, loads, v);
      }
    }
  }
};

NIXIE_DEVICE void consume(const Epilogue& epilogue, u32 shared, u32 full, u32 empty, int group) {
  float sum[kMmaM][kColumns / 2];
  Ring<kStages> ring;
  const bool leader = threadIdx.x % 128 == 0;
  for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x) {
    for (int block = 0; block < kBlocks; block++, ring.next()) {
      const u32 stage = shared + ring.stage * kStageBytes;
      barrier_wait(full + 8 * ring.stage, ring.parity);
#pragma unroll
      for (int m = 0; m < kMmaM; m++) pin(sum[m]);
      wgmma_begin();
      multiply_stage(sum, stage + group * kRows * 128, stage + kBytesA, block);
      wgmma_commit();
      wgmma_wait<1>();  // the previous stage has been read: release it
      if (block > 0 && leader) barrier_arrive(empty + 8 * ring.previous());
    }
    wgmma_wait<0>();
    if (leader) barrier_arrive(empty + 8 * ring.previous());
#pragma unroll
    for (int m = 0; m < kMmaM; m++) pin(sum[m]);
    epilogue(sum, base_of(tile, group), tile % kGroups * kGroup);
  }
}

extern "C" __global__ void __launch_bounds__((kConsumers + 1) * 128, 1)
    conv_rows(const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap w,
              const __grid_constant__ Body body) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full_barriers[kStages], empty_barriers[kStages];
  const u32 shared = (shared_address(dynamic) + 1023) & ~1023u, full = shared_address(full_barriers),
            empty = shared_address(empty_barriers);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, kConsumers);
    }
    barrier_init_done();
    prefetch_map(&dy), prefetch_map(&w);
  }
  __syncthreads();
  const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (role == 0) {
    if (kConsumers > 1) registers_down<kConsumers == 2 ? 40 : 32>();
    if (threadIdx.x == 0) produce(&dy, &w, shared, full, empty);
  } else {
    if (kConsumers > 1) registers_up<kConsumers == 2 ? 232 : 160>();
    const u32 staging = shared + kStages * kStageBytes + (role - 1) * CONV_S * kTapBytes;
    consume({body, staging, role}, shared, full, empty, role - 1);
  }
}
