// First layers of three channels and stride 4 (AlexNet, Overfeat: 11x11) on Hopper's tensor cores, by space-to-depth:
// each block of 4x4 pixels becomes a point of 48 channels, and the layer a dense 3x3 convolution of stride 1.
//
// Layout   x [N][3][H][W] with any strides, of any type, possibly transformed by element() when loaded; w [K][R][S][3],
//          y and dy channels-last, 16-bit. conv_s2d_pack makes a padded copy of x in 6 planes of 8 channels,
//          [N][plane][row][column][8], which forward pass and gradient share. In shared memory 8 neighbouring points of
//          a plane are one core matrix of an unswizzled operand, so each tap reads the same data at a start address
//          shifted by whole points: a band is loaded once. A pixel row of a point has 12 values (4 pixels of 3
//          channels); plane d < 4 holds the first 8 of pixel row d, planes 4 and 5 the last 4 of two rows each.
// Rows     M runs over the band's points, row after row, each row padded to the pitch. The last columns of a row are
//          computed but not stored (4 %). Filters are permuted so that a thread's eight are neighbours.
// Pool     tiles are 8 x 8 points, so that the values of a 2 x 2 window are in neighbouring lanes: the un-pooled output
//          is never written.
// Roles    one thread copies bands; three warpgroups multiply tiles of 64 points in turn. In the gradient dy is loaded
//          by TMA, which reads zeros past column Q, and warpgroup i holds the sums of tap row i over all bands of a
//          block.
// Limits   stride 4; R and S at most 12, in the gradient R from 9 to 12; K 32, 64 or 96 forward, a multiple of 8 in
//          the gradient; a band's buffers must fit shared memory.
//
// Measured on an H200, batch 128: AlexNet conv1 forward 48 us, gradient 51, packing 22 (memory bound 23 each; cuDNN 437
// and 356); Overfeat 61, 82 and 24 us (bound 35; cuDNN 678 and 488). The tensor cores are busy 60 % of the time:
// products of 64 x 64 and 64 x 48 read shared memory for as long as they multiply; filters as M and points as N = 128
// would help. Overfeat with its 2x2 pooling fused, packing included: 102 us, where layer and pooling took 93 and 31.
// What each idea gained: packing inside the kernel took 60 and 75 us (4 warps issue too slowly), a packing kernel 22 +
// 54 and 51; packing the weights once instead of in every block 6 us. With images of bytes (AlexNet, a scale and a
// shift per channel), one thread packing the same position of two images, with channels known at compile time: 84 -> 68
// us forward; from halves 73.
//
// Compile-time, all required: CONV_IMAGES CONV_H CONV_W CONV_PAD_H CONV_PAD_W CONV_K CONV_R CONV_S CONV_P CONV_Q
//   CONV_BAND (output rows of a band) CONV_BUFFERS CONV_AT_ONCE (images that a thread packs) NIXIE_BF16
//   NIXIE_PRODUCTS                         as in ptx.cuh, of K columns; gradient: of 48 and 8
//   CONV_X_N CONV_X_C CONV_X_H CONV_X_W    strides of x, in elements
//   CONV_POOL CONV_BIAS CONV_RELU          forward: 1: 2x2 max pooling fused, BAND a multiple of 8
//   CONV_GRAD CONV_BLOCKS CONV_OUT_FLOAT   1: the filter gradient; its blocks; its type: float or 16-bit
// Defined before this file: Stored, the type in which x is stored; element(body, stored, n, c, h, w), which computes an
// element of the image from its stored value; and Body, which holds x (const Stored*) and packed (uint4*), and
//   forward: w (const u16*), packed_weights (uint4*) and what conv_fprop_sm90.cuh says but Fixed, or with POOL bias
//   (const float*), y (u16*) [N][P/2][Q/2][K] and index (u8*);
//   gradient: parts float[blocks][ceil(K / 64)][kTaps * 48 + 8][64], dw [K][R][S][3] (void*), db float[K].
// With TR = ceil(R / 4), TS = ceil(S / 4), kTaps = TR * TS, kPitch = Q + TS - 1, kBandBytes = 96 * (BAND + TR - 1) *
// kPitch + 16 * (TS + 14) rounded up to 1024, kDyBytes = 128 * BAND * kPitch rounded up to 2048:
// Kernel conv_s2d_pack(body): a thread per 16 bytes of packed [images][6][P + TR - 1][kPitch][8] for each
//   AT_ONCE images; block 256.
// Kernel conv_s2d_pack_weights(body): a thread per 16 bytes of packed_weights [kTaps * 6][K][8]; block 256.
// Kernel conv_s2d(body): grid up to one block per SM, block 512, dynamic shared memory 1024 + BUFFERS * kBandBytes +
//   kTaps * 96 * K.
// Kernel conv_s2d_wgrad(dy_map, body): grid (blocks, ceil(K / 64)), block 512, dynamic shared memory 1024 + BUFFERS *
//   (kBandBytes + kDyBytes); dy_map tiled {K, Q, P, N}, box {64, kPitch, BAND, 1}, swizzle 128 bytes.
// Kernel conv_s2d_wgrad_reduce(body): grid (kTaps * 48 + 8, grid.y of the gradient), block 256.
#pragma once
#include "ptx.cuh"
#include "types.cuh"

#if NIXIE_BF16
using Half = bf16;
#else
using Half = f16;
#endif

constexpr int kP = CONV_P, kQ = CONV_Q;
constexpr int kTapsR = (CONV_R + 3) / 4, kTapsS = (CONV_S + 3) / 4, kTaps = kTapsR * kTapsS;
constexpr int kPitch = kQ + kTapsS - 1, kBand = CONV_BAND, kRows = kBand + kTapsR - 1,
              kBands = (kP + kBand - 1) / kBand;
// The last product of a gradient reads past the last plane, where memory must be zero: dy is zero there, but zero times
// arbitrary bits can be NaN.
constexpr int kPlaneBytes = kRows * kPitch * 16,
              kBandBytes = (6 * kPlaneBytes + (kTapsS + 14) * 16 + 1023) / 1024 * 1024;
constexpr int kPackedRows = kP + kTapsR - 1, kConsumers = 3, kThreads = (kConsumers + 1) * 128, kBuffers = CONV_BUFFERS;

constexpr int kImagesAtOnce = CONV_AT_ONCE;

// The bits of value `value` (pixel value / 3, channel value % 3) of pixel row `h` of a point; zero outside the image.
NIXIE_DEVICE u32 load_value(const Body& body, int n, int h, int w, int value) {
  const int c = value % 3;
  w += value / 3;
  const bool inside = h >= 0 && h < CONV_H && w >= 0 && w < CONV_W;
  const Stored* image = body.x + static_cast<u64>(n) * CONV_X_N;
  const Stored stored = inside ? read<1>(image + (h * CONV_X_H + w * CONV_X_W + c * CONV_X_C)).lane[0] : Stored{};
  // Computed outside the image, too, so that the numbers of a channel are loaded once for all values.
  const u32 bits = convert<Half>(element(body, stored, n, c, h, w)).bits;
  return inside ? bits : 0;
}

// The filter element of channel `channel` (0 to 47) of tap `tap`, or -1 in the window's padding.
NIXIE_DEVICE int filter_element(int tap, int channel) {
  int plane = channel / 8, e = channel % 8;
  int d = plane < 4 ? plane : (plane - 4) * 2 + e / 4, value = plane < 4 ? e : 8 + e % 4;
  int r = tap / kTapsS * 4 + d, s = tap % kTapsS * 4 + value / 3;
  return r < CONV_R && s < CONV_S ? (r * CONV_S + s) * 3 + value % 3 : -1;
}

// Eight channels of one point: plane d < 4 has values 0 to 7 of pixel row d, planes 4 and 5 values 8 to 11 of two rows.
template <bool first_values>
NIXIE_DEVICE uint4 pack_point(const Body& body, int n, int plane, int row, int j) {
  u32 word[4] = {};
#pragma unroll
  for (int e = 0; e < 8; e++) {
    int d = first_values ? plane : (plane - 4) * 2 + e / 4, value = first_values ? e : 8 + e % 4;
    word[e / 2] |= load_value(body, n, 4 * row + d - CONV_PAD_H, 4 * j - CONV_PAD_W, value) << (e % 2 * 16);
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

// Eight channels of one filter. Packed weights are [tap * 6 + plane][column][8 channels]; column 8 b + c is filter b /
// 4 * 32 + c / 2 * 8 + b % 4 * 2 + c % 2.
NIXIE_DEVICE uint4 pack_filter(const u16* w, int chunk, int column) {
  int block = column / 8, filter = block / 4 * 32 + column % 8 / 2 * 8 + block % 4 * 2 + column % 2;
  u32 word[4] = {};
#pragma unroll
  for (int e = 0; e < 8; e++) {
    int at = filter_element(chunk / 6, chunk % 6 * 8 + e);
    u32 value = at >= 0 ? w[filter * (CONV_R * CONV_S * 3) + at] : 0;
    word[e / 2] |= value << (e % 2 * 16);
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

extern "C" __global__ void __launch_bounds__(256) conv_s2d_pack(const __grid_constant__ Body body) {
  constexpr int kPlane = kPackedRows * kPitch;
  const int i = blockIdx.x * 256 + threadIdx.x, n = i / (6 * kPlane) * kImagesAtOnce, at = i % (6 * kPlane),
            plane = at / kPlane, row = at % kPlane / kPitch, j = at % kPitch;
#pragma unroll
  for (int k = 0; k < kImagesAtOnce; k++)
    if (n + k < CONV_IMAGES)
      body.packed[(n + k) * (6 * kPlane) + at] =
          plane < 4 ? pack_point<true>(body, n + k, plane, row, j) : pack_point<false>(body, n + k, plane, row, j);
}

// One thread copies a band (output rows from `p` on) to shared memory. Rows past the image keep their old contents,
// since only outputs that do not exist use them.
NIXIE_DEVICE u32 band_bytes(int p) { return 6 * min(kRows, kPackedRows - p) * kPitch * 16; }
NIXIE_DEVICE void load_band(u32 shared, const uint4* packed, int image, int p, u32 bar) {
#pragma unroll
  for (int plane = 0; plane < 6; plane++)
    copy_bulk(shared + plane * kPlaneBytes, packed + ((image * 6 + plane) * kPackedRows + p) * kPitch,
              band_bytes(p) / 6, bar);
}

struct Barriers {
  u32 full, empty;
};
NIXIE_DEVICE Barriers init_barriers(u64* full, u64* empty) {
  Barriers bars{shared_address(full), shared_address(empty)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kBuffers; i++) {
      barrier_init(bars.full + 8 * i, 1);
      barrier_init(bars.empty + 8 * i, kConsumers);
    }
    barrier_init_done();
  }
  return bars;
}

// ---- forward ----

#if !CONV_GRAD
extern "C" __global__ void __launch_bounds__(256) conv_s2d_pack_weights(const __grid_constant__ Body body) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < kTaps * 6 * CONV_K) body.packed_weights[i] = pack_filter(body.w, i / CONV_K, i % CONV_K);
}

#if CONV_POOL
// A tile is 8 rows x 8 columns of points.
constexpr int kTilesQ = (kQ + 7) / 8, kTiles = kBand / 8 * kTilesQ, kStep = kPitch * 16;
static_assert(kBand % 8 == 0);
NIXIE_DEVICE int first_point(int tile) { return tile / kTilesQ * 8 * kPitch + tile % kTilesQ * 8; }

// Bias, ReLU, the maximum of each 2x2 window and its index. A thread has both rows of a window, but its two columns are
// in two threads, each of which finishes half of the filters.
NIXIE_DEVICE void finish_tile(const Body& body, const float (&sum)[CONV_K / 2], int image, int p, int tile) {
  constexpr int kFours = CONV_K / 16, kOutP = kP / 2, kOutQ = kQ / 2;  // fours: groups of 4 filters per thread
  const int lane = threadIdx.x % 32, t = lane % 4;
  const bool odd = lane / 4 % 2;
  p = (p + tile / kTilesQ * 8) / 2 + threadIdx.x % 128 / 32;
  const int q = tile % kTilesQ * 4 + lane / 8;
  const u64 out = (static_cast<u64>(image * kOutP + p) * kOutQ + q) * CONV_K;
#pragma unroll
  for (int k = 0; k < kFours / 2; k++) {
    u32 best[2], at[2] = {};
    const int four = odd ? k + kFours / 2 : k, filter = four / 2 * 32 + t * 8 + four % 2 * 4;
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
      for (u32 side = 0; side < 2; side++) {
        const auto word = [&](int i) {
          const float* v = &sum[(i * 2 + j) * 4 + side * 2];
          const float* b = body.bias + i / 2 * 32 + t * 8 + i % 2 * 4 + j * 2;
          const float low = v[0] + (CONV_BIAS ? b[0] : 0.f), high = v[1] + (CONV_BIAS ? b[1] : 0.f);
          return CONV_RELU ? pack_relu(low, high) : pack(low, high);
        };
        const u32 first = word(k), second = word(k + kFours / 2);
        const u32 own = odd ? second : first, other = __shfl_xor_sync(~0u, odd ? first : second, 4);
        const u32 left = odd ? other : own, right = odd ? own : other;
        const u32 wins = side == 0 ? ~0u : beats(left, best[j]);
        best[j] = side == 0 ? left : select(wins, left, best[j]);
        at[j] = side == 0 ? 0 : select(wins, 0x20002u, at[j]);
        const u32 right_wins = beats(right, best[j]);
        best[j] = select(right_wins, right, best[j]), at[j] = select(right_wins, (side * 2 + 1) * 0x10001u, at[j]);
      }
    }
    if (p >= kOutP || q >= kOutQ) continue;
    *reinterpret_cast<uint2*>(body.y + out + filter) = make_uint2(best[0], best[1]);
    *reinterpret_cast<u32*>(body.index + out + filter) = bytes(at[0], at[1]);
  }
}
#else
constexpr int kTiles = (kBand * kPitch - kTapsS + 1 + 63) / 64, kStep = 128;
NIXIE_DEVICE int first_point(int tile) { return tile * 64; }

// Runs Body over the sums of the 64 points of a tile.
NIXIE_DEVICE void finish_tile(const Body& body, const float (&sum)[CONV_K / 2], int image, int p, int tile) {
  int lane = threadIdx.x % 128, t = lane % 4;
#pragma unroll
  for (int side = 0; side < 2; side++) {
    int at = first_point(tile) + lane / 32 * 16 + lane % 32 / 4 + side * 8, row = at / kPitch, q = at - row * kPitch;
    if (row >= kBand || p + row >= kP || q >= kQ) continue;
    const int pixel = (image * kP + p + row) * kQ + q;
    Body::Loads loads[CONV_K / 32];
#pragma unroll
    for (int group = 0; group < CONV_K / 32; group++) body.load(pixel, group * 32 + t * 8, loads[group]);
#pragma unroll
    for (int group = 0; group < CONV_K / 32; group++) {
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; i++) v[i] = sum[(group * 4 + i / 2) * 4 + side * 2 + i % 2];
      body.run(pixel, group * 32 + t * 8, loads[group], v);
    }
  }
}
#endif

extern "C" __global__ void __launch_bounds__(kThreads, 1) conv_s2d(const __grid_constant__ Body body) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full[kBuffers], empty[kBuffers], weights_here;
  constexpr u32 kWeightBytes = kTaps * 96 * CONV_K;
  const u32 shared = (shared_address(dynamic) + 1023) & ~1023u, weights = shared + kBuffers * kBandBytes;
  const Barriers bars = init_barriers(full, empty);
  if (threadIdx.x == 0) barrier_init(shared_address(&weights_here), 1), barrier_init_done();
  __syncthreads();
  const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    barrier_expect(shared_address(&weights_here), kWeightBytes);
    copy_bulk(weights, body.packed_weights, kWeightBytes, shared_address(&weights_here));
  } else if (role > 0) {
    barrier_wait(shared_address(&weights_here), 0);
  }
  Ring<kBuffers> ring;
  int turn = 0;  // tiles so far; warpgroups take them in turn
  for (int unit = blockIdx.x; unit < CONV_IMAGES * kBands; unit += gridDim.x, ring.next()) {
    int image = unit / kBands, p = (unit - image * kBands) * kBand;
    u32 band = shared + ring.stage * kBandBytes;
    if (role == 0) {
      if (threadIdx.x != 0) continue;
      barrier_wait(bars.empty + 8 * ring.stage, ring.parity ^ 1);
      barrier_expect(bars.full + 8 * ring.stage, band_bytes(p));
      load_band(band, body.packed, image, p, bars.full + 8 * ring.stage);
      continue;
    }
    barrier_wait(bars.full + 8 * ring.stage, ring.parity);
    for (int tile = 0; tile < kTiles; tile++, turn++) {
      if (turn % kConsumers != role - 1) continue;
      float sum[CONV_K / 2];
      pin(sum);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < kTaps * 3; i++) {
        int tap = i / 3, shift = tap / kTapsS * kPitch + tap % kTapsS;
        wgmma<0, 0>(sum,
                    operand<Swizzle::none>(band + i % 3 * 2 * kPlaneBytes + (first_point(tile) + shift) * 16,
                                           kPlaneBytes, kStep),
                    operand<Swizzle::none>(weights + i * 2 * CONV_K * 16, CONV_K * 16, 128), i != 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
      pin(sum);
      finish_tile(body, sum, image, p, tile);
    }
    if (threadIdx.x % 128 == 0) barrier_arrive(bars.empty + 8 * ring.stage);
  }
}
#else

// ---- filter gradient ----

constexpr int kDyPoints = (kBand * kPitch + 15) / 16 * 16, kDyBytes = kDyPoints * 128;
constexpr int kColumns = kTaps * 48 + 8;  // of the partial sums: taps x channels, then 8 columns of ones for the bias

NIXIE_DEVICE void produce_gradient(const TensorMap* dy, const uint4* packed, u32 shared, Barriers bars) {
  Ring<kBuffers> ring;
  for (int unit = blockIdx.x; unit < CONV_IMAGES * kBands; unit += gridDim.x, ring.next()) {
    int image = unit / kBands, p = (unit - image * kBands) * kBand;
    u32 buffer = shared + ring.stage * (kBandBytes + kDyBytes), full = bars.full + 8 * ring.stage;
    barrier_wait(bars.empty + 8 * ring.stage, ring.parity ^ 1);
    barrier_expect(full, kBand * kPitch * 128 + band_bytes(p));
    copy_box_4d(buffer, dy, full, blockIdx.y * 64, 0, p, image);
    load_band(buffer + kDyBytes, packed, image, p, full);
  }
}

// Adds up tap row `tap_row` over all bands of the block; tap row 0 also adds up the bias gradient.
NIXIE_DEVICE void consume_gradient(float* parts, u32 shared, u32 ones, Barriers bars, int tap_row) {
  float sum[kTapsS][24] = {}, bias[4] = {};
  Ring<kBuffers> ring;
  for (int unit = blockIdx.x; unit < CONV_IMAGES * kBands; unit += gridDim.x, ring.next()) {
    u32 buffer = shared + ring.stage * (kBandBytes + kDyBytes), band = buffer + kDyBytes + tap_row * kPitch * 16;
    barrier_wait(bars.full + 8 * ring.stage, ring.parity);
#pragma unroll
    for (int s = 0; s < kTapsS; s++) pin(sum[s]);
    pin(bias);
    wgmma_begin();
    for (int i = 0; i < kDyPoints / 16; i++) {
      u64 left = operand<Swizzle::b128>(buffer + i * 2048, 8192, 1024);
#pragma unroll
      for (int s = 0; s < kTapsS; s++)
        wgmma<1, 1>(sum[s], left, operand<Swizzle::none>(band + (i * 16 + s) * 16, 128, kPlaneBytes), true);
      if (i % kTapsR == tap_row) wgmma<1, 0>(bias, left, operand<Swizzle::none>(ones, 128, 128), true);
    }
    wgmma_commit();
    wgmma_wait<0>();
    if (threadIdx.x % 128 == 0) barrier_arrive(bars.empty + 8 * ring.stage);
  }
#pragma unroll
  for (int s = 0; s < kTapsS; s++) pin(sum[s]);
  pin(bias);
  const int lane = threadIdx.x % 128, row = lane / 32 * 16 + lane % 32 / 4;
#pragma unroll
  for (int i = 0; i < kTapsS * 24 + 4; i++) {
    bool is_bias = i >= kTapsS * 24;
    int j = is_bias ? i - kTapsS * 24 : i % 24;
    int column = (is_bias ? kTaps * 48 : (tap_row * kTapsS + i / 24) * 48 + j / 4 * 8) + lane % 4 * 2 + j % 2;
    if (is_bias && column % 8 != tap_row)
      continue;  // all columns of the product with ones are equal: each tap row writes one
    parts[column * 64 + row + j % 4 / 2 * 8] = is_bias ? bias[j] : sum[i / 24 < kTapsS ? i / 24 : 0][j];
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    conv_s2d_wgrad(const __grid_constant__ TensorMap dy, const __grid_constant__ Body body) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full[kBuffers], empty[kBuffers];
  __shared__ alignas(128) u32 ones[64];
  const u32 shared = (shared_address(dynamic) + 1023) & ~1023u;
  const Barriers bars = init_barriers(full, empty);
  for (int i = threadIdx.x; i < kBuffers * (kBandBytes + kDyBytes) / 16; i += kThreads)
    store_shared(shared + i * 16, uint4{});
  if (threadIdx.x < 64) ones[threadIdx.x] = pack(1.f, 1.f);
  fence_async_proxy();
  __syncthreads();  // points that pad a band to whole products stay zero
  const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);
  float* parts = body.parts + static_cast<u64>(blockIdx.x * gridDim.y + blockIdx.y) * (kColumns * 64);
  static_assert(kTapsR == kConsumers, "one warpgroup per row of taps");
  if (role == 0) {
    if (threadIdx.x == 0) produce_gradient(&dy, body.packed, shared, bars);
  } else {
    consume_gradient(parts, shared, shared_address(ones), bars, role - 1);
  }
}

extern "C" __global__ void __launch_bounds__(256) conv_s2d_wgrad_reduce(const __grid_constant__ Body body) {
  __shared__ float sums[4][64];
  int column = blockIdx.x, row = threadIdx.x % 64, share = threadIdx.x / 64, filter = blockIdx.y * 64 + row;
  if (column > kTaps * 48 || (column < kTaps * 48 && filter_element(column / 48, column % 48) < 0)) return;
  float sum = 0;
  for (int j = 0; j < (column < kTaps * 48 ? 1 : kTapsR); j++) {
    const float* from = body.parts + static_cast<u64>(blockIdx.y) * (kColumns * 64) + (column + j) * 64 + row;
#pragma unroll 8
    for (int i = share; i < CONV_BLOCKS; i += 4) sum += from[static_cast<u64>(i) * gridDim.y * (kColumns * 64)];
  }
  sums[share][row] = sum;
  __syncthreads();
  if (share != 0 || filter >= CONV_K) return;
  for (int i = 1; i < 4; i++) sum += sums[i][row];
  if (column == kTaps * 48) {
    body.db[filter] = sum;
    return;
  }
  int at = filter * (CONV_R * CONV_S * 3) + filter_element(column / 48, column % 48);
#if CONV_OUT_FLOAT
  static_cast<float*>(body.dw)[at] = sum;
#else
  static_cast<u16*>(body.dw)[at] = static_cast<u16>(pack(sum, 0.f));
#endif
}
#endif
