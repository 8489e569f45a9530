// The first layer of a VGG-like net: 3x3 convolution of three channels, stride 1, with bias, ReLU and, if wanted, the
// 2x2 max pool and its index in one pass; and its filter gradient straight from the pooled gradient and the index.
//
// Why      27 products a filter are far too few for the general kernel, and memory is the floor: the un-pooled output,
//          its gradient and any mask are never written.
// Layout   x as it lies (any strides), 16-bit, or elements made of what lies there; y [N][P][Q][K] (pooled:
//          [N][P/2][Q/2][K] and an index byte each), w [K][3][3][3]; 16-bit.
// Forward  a block holds a band of rows of x in shared memory, twice: the second copy is shifted by one element so
//          that pairs of neighbours are aligned words for odd pixels too. A warp makes 2 rows x 16 pixels x 64 filters
//          with mma.m16n8k16: the reduction is 3 rows of 9, each padded to 10, so that an operand register is one
//          4-byte load. Row g of a product is pixel 2g, row g + 8 pixel 2g + 1: the four values of a pooling window
//          meet in one thread. Filters are permuted so that a thread's eight are neighbours: 16-byte stores.
// Gradient M = filters, N = 27 taps and a column of ones (the bias gradient), reduction = the four pixels of four
//          windows. A thread expands its windows' gradients by their index in registers; x is kept as words of two
//          neighbouring pixels. Blocks write fp32 partials, conv_c3_wgrad_reduce adds them in a fixed order.
// Limits   K a multiple of 64, pad 0 or 1. Any architecture from sm_80.
//
// Rows     CONV_ROWS: the next band's rows come to shared memory as they lie while a band is worked on, and become
//          words from there, a pair of pixels a thread.
//
// Measured on an H200, VGG conv1 with pool, batch 64: forward 91 us (floor 41; apart, cuDNN takes 400 and PyTorch's
// pool 617), filter gradient 95 us (floor 41; apart 312 and 1233). Without the pool the forward takes 1.4 times its
// floor.
// What the ideas bought: bias from shared memory instead of global loads in the inner loop and pitches without bank
// conflicts 5 %; rows ahead of a band 113 -> 91 and 120 -> 95 us; two steps of gradients in flight 5 %; prefetching the
// next band's gradients into L2 lost 8 %. From bytes, with a scale and a shift per channel, 105 and 109 us where halves
// took 101 and 101 in the same trace; a kernel that makes them halves before takes 7 at least.
//
// Compile-time, all required: CONV_IMAGES CONV_H CONV_W CONV_PAD CONV_K CONV_POOL CONV_GRAD NIXIE_BF16, and
//   CONV_X_N CONV_X_C CONV_X_H CONV_X_W    the strides of x in elements
//   CONV_ROWS                   1: rows of x are packed, of a multiple of 16 bytes, and lie at multiples of 16 bytes
//   CONV_BIAS CONV_RELU         forward with pool
//   CONV_BLOCKS CONV_OUT_FLOAT  gradient: grid.x; the type of dw, float or 16-bit
// Kernel conv_c3: grid (any number of blocks, best two per multiprocessor; K / 64), block 256, dynamic shared memory
//   max(40 * kPitch, 40 * kPairPitch, 8448) bytes, 31 KB for W = 224, and with ROWS 30 * W elements as stored and 16
//   bytes more. The pool compares rounded values: results equal the unfused ones bit for bit.
// Kernel conv_c3_wgrad(body): dy is the gradient of y as the forward kernel wrote it, already gated by y > 0 where
//   there is a ReLU; parts float[BLOCKS][K / 64][64 * 32]; the same grid, block and shared memory.
// Kernel conv_c3_wgrad_reduce(body): grid (64, K / 64), block 256; dw [K][27], db float[K].
// Before this file: Stored, the type of what x holds, of at most 2 bytes; element(body, stored, n, c, h, w), which
// makes an element of the image of what is stored at its place; and Body, which holds x (const Stored*), and
//   forward: w (const u16*) and what conv_fprop_sm90.cuh says, or with POOL w, bias (const float*), y (u16*),
//            index (u8*);
//   gradient: dy (const u16*), index (const u8*), parts (float*), dw (void*), db (float*).
#pragma once
#include "ptx.cuh"
#include "types.cuh"

#if NIXIE_BF16
using Half = bf16;
#else
using Half = f16;
#endif

constexpr int kP = CONV_H + 2 * CONV_PAD - 2, kQ = CONV_W + 2 * CONV_PAD - 2, kBandRows = 8, kWarps = 8;
// Pitches of a padded row, in 4-byte words, with room for the last tile's reach. Their remainders by 32 make the
// elements of a window, row after row, fall into different banks.
constexpr int kReach = (kQ + 2 + 15) * 3;
constexpr int kPitch = 2 * ((kReach / 2 - 4 + 31) / 32 * 32 + 5), kPairPitch = (kReach - 9 + 31) / 32 * 32 + 9;
constexpr int kBands = (kP + kBandRows - 1) / kBandRows;
constexpr int kOutP = CONV_POOL ? kP / 2 : kP, kOutQ = CONV_POOL ? kQ / 2 : kQ;
// Bytes of a band in shared memory; where rows lie behind it.
constexpr int kFormBytes = CONV_GRAD ? 40 * kPairPitch : 40 * kPitch;
constexpr int kRowsAt = ((kFormBytes > 8448 ? kFormBytes : 8448) + 15) / 16 * 16;
constexpr u32 kOnes = NIXIE_BF16 ? 0x3f803f80u : 0x3c003c00u;

NIXIE_DEVICE bool is_inside(int row, int column) { return row >= 0 && row < CONV_H && column >= 0 && column < CONV_W; }
// Bits of channel c of the pixel at a row and column.
NIXIE_DEVICE u32 bits_of(const Body& body, Stored stored, int n, int c, int row, int column) {
  return convert<Half>(element(body, stored, n, c, row, column)).bits;
}

// Fills shared memory with a band, from the images or from its rows.
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row);

#if CONV_ROWS
constexpr int kLoadedRows = kBandRows + 2;
NIXIE_DEVICE Stored* rows_of(u32* shared) { return reinterpret_cast<Stored*>(shared + kRowsAt / 4); }

// Asks for the rows of a unit's band as they lie, [channel][row][W].
NIXIE_DEVICE void fetch_rows(u32* shared, const Stored* x, int unit) {
  constexpr int kPiece = 16 / sizeof(Stored), kPieces = CONV_W / kPiece;
  const int image = unit / kBands, first_row = (unit - image * kBands) * kBandRows;
  if (image >= CONV_IMAGES) return;
  const u32 to = shared_address(rows_of(shared));
  x += static_cast<u64>(image) * CONV_X_N;
#pragma unroll 1  // as registers allow
  for (int i = threadIdx.x; i < 3 * kLoadedRows * kPieces; i += kWarps * 32) {
    const int line = i / kPieces, c = line / kLoadedRows, row = first_row + line % kLoadedRows - CONV_PAD;
    const bool there = row >= 0 && row < CONV_H;
    copy_piece(to + i * 16, x + c * CONV_X_C + (there ? row : 0) * CONV_X_H + i % kPieces * kPiece, there);
  }
}

// Calls act(row, pixel, elements) for pairs of pixels: their elements and those of the pixel after them.
template <int kPairs, class Act>
NIXIE_DEVICE void at_pairs(const Stored* rows, const Body& body, int n, int first_row, Act act) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kLoadedRows * kPairs; i += kWarps * 32) {
    const int row = i / kPairs, pixel = (i - row * kPairs) * 2;
    u32 e[9];
#pragma unroll
    for (int j = 0; j < 9; j++) {
      const int h = first_row + row - CONV_PAD, column = pixel + j / 3 - CONV_PAD;
      const bool inside = is_inside(h, column);
      const Stored stored = inside ? rows[(j % 3 * kLoadedRows + row) * CONV_W + column] : Stored{};
      // Outside too, so that what belongs to a channel is read once for all pixels.
      const u32 bits = bits_of(body, stored, n, j % 3, h, column);
      e[j] = inside ? bits : 0;
    }
    act(row, pixel, e);
  }
}
#else
// The same; zero outside.
NIXIE_DEVICE u32 pixel(const Body& body, int n, int row, int column, int c) {
  if (!is_inside(row, column)) return 0;
  const Stored* image = body.x + static_cast<u64>(n) * CONV_X_N;
  return bits_of(body, image[row * CONV_X_H + column * CONV_X_W + c * CONV_X_C], n, c, row, column);
}
#endif

// Makes the band of a unit, all threads together. The rows of the next one come while this one is worked on.
NIXIE_DEVICE void make_band(u32* shared, const Body& body, int unit) {
  const int image = unit / kBands, first_row = (unit - image * kBands) * kBandRows;
#if CONV_ROWS
  copies_wait();
  __syncthreads();
  load_band(shared, body, image, first_row);
  __syncthreads();
  fetch_rows(shared, body.x, unit + gridDim.x);
#else
  __syncthreads();
  load_band(shared, body, image, first_row);
  __syncthreads();
#endif
}

#if !CONV_GRAD
// ---- forward ----

// Weights of one warp's products in registers: [half of 32 filters][block of 8][step of 16][register].
NIXIE_DEVICE void load_weights(u32 (&b)[2][4][2][2], const u16* w, int lane) {
  int column = lane / 4;
#pragma unroll
  for (int i = 0; i < 32; i++) {
    int half = i / 16, block = i / 4 % 4, step = i / 2 % 2, reg = i % 2;
    int filter = half * 32 + column / 2 * 8 + block * 2 + column % 2, k = step * 16 + reg * 8 + lane % 4 * 2;
    const u16* from = w + filter * 27 + k / 10 * 9 + k % 10;
    u32 low = k < 30 ? from[0] : 0, high = k < 30 && k % 10 != 8 ? from[1] : 0;
    b[half][block][step][reg] = low | high << 16;
  }
}

// Both copies of a band: word i of the first is elements 2i, 2i + 1, of the second 2i + 1, 2i + 2.
#if CONV_ROWS
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row) {
  constexpr int kWords = kPitch / 2;
  at_pairs<(kWords + 2) / 3>(rows_of(shared), body, n, first_row, [&](int row, int pixel, const u32(&e)[9]) {
#pragma unroll
    for (int i = 0; i < 3; i++) {
      const int at = pixel / 2 * 3 + i;
      if (kWords % 3 != 0 && at >= kWords) continue;
      shared[row * kWords + at] = e[2 * i] | e[2 * i + 1] << 16;
      shared[(kLoadedRows + row) * kWords + at] = e[2 * i + 1] | e[2 * i + 2] << 16;
    }
  });
}
#else
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row) {
  constexpr int kWords = kPitch / 2;
  // Element i, channels innermost, of a padded row.
  const auto at_element = [&](int row, int i) { return pixel(body, n, row, i / 3 - CONV_PAD, i % 3); };
#pragma unroll(CONV_POOL ? 4 : 2)  // as registers allow
  for (int i = threadIdx.x; i < (kBandRows + 2) * kWords; i += kWarps * 32) {
    int r = i / kWords, at = (i - r * kWords) * 2, row = first_row + r - CONV_PAD;
    u32 a = at_element(row, at), b = at_element(row, at + 1), c = at_element(row, at + 2);
    shared[i] = a | b << 16;
    shared[(kBandRows + 2) * kWords + i] = b | c << 16;
  }
}
#endif

// Eight filters of 2 x 2 pixels, [position][filter]; (p, q) is the first pixel.
#if CONV_POOL
NIXIE_DEVICE void finish_windows(const Body& body, const float (&sum)[4][8], int image, int p, int q, int filter) {
  if (p / 2 >= kOutP || q / 2 >= kOutQ) return;
  u32 best[4], at[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
#pragma unroll
    for (u32 position = 0; position < 4; position++) {
      const float low = sum[position][2 * i], high = sum[position][2 * i + 1];
      const u32 word = CONV_RELU ? pack_relu(low, high) : pack(low, high);
      const u32 wins = position == 0 ? ~0u : beats(word, best[i]);
      best[i] = position == 0 ? word : select(wins, word, best[i]);
      at[i] = position == 0 ? 0 : select(wins, position * 0x10001u, at[i]);
    }
  }
  u64 out = (static_cast<u64>(image * kOutP + p / 2) * kOutQ + q / 2) * CONV_K + filter;
  *reinterpret_cast<uint4*>(body.y + out) = make_uint4(best[0], best[1], best[2], best[3]);
  *reinterpret_cast<uint2*>(body.index + out) = make_uint2(bytes(at[0], at[1]), bytes(at[2], at[3]));
}
#else
NIXIE_DEVICE void finish_windows(const Body& body, const float (&sum)[4][8], int image, int p, int q, int filter) {
#pragma unroll
  for (int position = 0; position < 4; position++) {
    const int row = p + position / 2, column = q + position % 2, pixel = (image * kP + row) * kQ + column;
    if (row >= kP || column >= kQ) continue;
    Body::Loads loads;
    body.load(pixel, filter, loads);
    body.run(pixel, filter, loads, sum[position]);
  }
}
#endif

extern "C" __global__ void __launch_bounds__(256, 2) conv_c3(const __grid_constant__ Body body) {
  extern __shared__ u32 band[];
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, group = blockIdx.y * 64;
  u32 b[2][4][2][2], mask[4];
  int offset[4];
  load_weights(b, body.w + group * 27, lane);
#pragma unroll
  for (int i = 0; i < 4; i++) {  // the pair of elements of operand register i (and of i + row)
    int k = i * 8 + t * 2;
    offset[i] = k < 30 ? k / 10 * kPitch + k % 10 : 0;
    mask[i] = k >= 30 ? 0 : k % 10 == 8 ? 0xffffu : ~0u;
  }
  __shared__ float start[64];
#if CONV_POOL
  if (threadIdx.x < 64) start[threadIdx.x] = CONV_BIAS ? body.bias[group + threadIdx.x] : 0.f;
#else
  if (threadIdx.x < 64) start[threadIdx.x] = 0.f;
#endif
#if CONV_ROWS
  fetch_rows(band, body.x, blockIdx.x);
#endif
  constexpr int kTilesQ = (kQ + 15) / 16, kCopy = (kBandRows + 2) * kPitch / 2;
  for (int unit = blockIdx.x; unit < CONV_IMAGES * kBands; unit += gridDim.x) {
    int image = unit / kBands, first = (unit - image * kBands) * kBandRows;
    make_band(band, body, unit);
    for (int tile = threadIdx.x / 32; tile < kBandRows / 2 * kTilesQ; tile += kWarps) {
      int pair = tile / kTilesQ, q = (tile - pair * kTilesQ) * 16 + 2 * g, p = first + pair * 2;
      if (p >= kP) break;
      u32 a[2][2][4];  // [row][step]
#pragma unroll
      for (int i = 0; i < 16; i++) {
        int row = i / 8, k = i / 2 % 4, odd = i % 2;  // register k % 2 * 2 + odd of step k / 2
        const u32* from = band + ((pair * 2 + row) * kPitch + 3 * q + offset[k]) / 2 + (odd ? kCopy + 1 : 0);
        a[row][k / 2][k % 2 * 2 + odd] = *from & mask[k];
      }
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int filter = group + half * 32 + t * 8;
        float value[4][8];
#pragma unroll
        for (int block = 0; block < 4; block++) {
#pragma unroll
          for (int row = 0; row < 2; row++) {
            const float2 add = *reinterpret_cast<const float2*>(start + half * 32 + t * 8 + block * 2);
            float sum[4] = {add.x, add.y, add.x, add.y};
            mma(sum, a[row][0], b[half][block][0][0], b[half][block][0][1]);
            mma(sum, a[row][1], b[half][block][1][0], b[half][block][1][1]);
            value[row * 2][block * 2] = sum[0], value[row * 2][block * 2 + 1] = sum[1];
            value[row * 2 + 1][block * 2] = sum[2], value[row * 2 + 1][block * 2 + 1] = sum[3];
          }
        }
        finish_windows(body, value, image, p, q, filter);
      }
    }
  }
}

#else
// ---- filter gradient ----

// Word i of a row: elements i and i + 3, which are the same channel of two neighbouring pixels.
#if CONV_ROWS
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row) {
  at_pairs<(kPairPitch + 5) / 6>(rows_of(shared), body, n, first_row, [&](int row, int pixel, const u32(&e)[9]) {
#pragma unroll
    for (int i = 0; i < 6; i++)
      if (pixel * 3 + i < kPairPitch) shared[row * kPairPitch + pixel * 3 + i] = e[i] | e[i + 3] << 16;
  });
}
#else
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row) {
#pragma unroll 4
  for (int i = threadIdx.x; i < (kBandRows + 2) * kPairPitch; i += kWarps * 32) {
    const int r = i / kPairPitch, at = i - r * kPairPitch, row = first_row + r - CONV_PAD, column = at / 3 - CONV_PAD;
    shared[i] = pixel(body, n, row, column, at % 3) | pixel(body, n, row, column + 1, at % 3) << 16;
  }
}
#endif

// Gradients of 8 filters in one window, as the forward kernel wrote y: one packed quadruple and its index, or the four
// pixels.
struct Gradients {
  uint4 dy[CONV_POOL ? 1 : 4];
  uint2 index;
};
NIXIE_DEVICE Gradients load_gradients(const u16* dy, const u8* index, int image, int p, int q, int filter) {
  Gradients v = {};
  if (CONV_POOL) {
    if (p / 2 >= kOutP || q / 2 >= kOutQ) return v;
    u64 at = (static_cast<u64>(image * kOutP + p / 2) * kOutQ + q / 2) * CONV_K + filter;
    v.dy[0] = *reinterpret_cast<const uint4*>(dy + at);
    v.index = *reinterpret_cast<const uint2*>(index + at);
  } else {
#pragma unroll
    for (int i = 0; i < (CONV_POOL ? 1 : 4); i++) {
      int row = p + i / 2, column = q + i % 2;
      if (row >= kP || column >= kQ) continue;
      v.dy[i] = *reinterpret_cast<const uint4*>(dy + (static_cast<u64>(image * kOutP + row) * kOutQ + column) * CONV_K +
                                                filter);
    }
  }
  return v;
}
NIXIE_DEVICE u32 word_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// Operand of filters 2i (rows g) and 2i + 1 (rows g + 8) of the thread's eight: positions 0, 1 and 2, 3 of its window.
NIXIE_DEVICE void expand(const Gradients& v, int i, u32 (&a)[4]) {
  if (CONV_POOL) {
    u32 pair = word_of(v.dy[0], i), where = (i < 2 ? v.index.x : v.index.y) >> (i % 2 * 16);
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
      u32 value = odd ? pair >> 16 : pair & 0xffff, position = where >> (8 * odd) & 3;
      u32 placed = value << (position % 2 * 16);
      a[odd] = position < 2 ? placed : 0;
      a[odd + 2] = position < 2 ? 0 : placed;
    }
  } else {
#pragma unroll
    for (int row = 0; row < 2; row++) {
      u32 left = word_of(v.dy[CONV_POOL ? 0 : row * 2], i), right = word_of(v.dy[CONV_POOL ? 0 : row * 2 + 1], i);
      a[row * 2] = __byte_perm(left, right, 0x5410);
      a[row * 2 + 1] = __byte_perm(left, right, 0x7632);
    }
  }
}

// Adds the warps' sums in order and writes them as [filter][32].
NIXIE_DEVICE void write_parts(const float (&sum)[4][4][4], float* shared, float* parts) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int turn = 0; turn < kWarps; turn++) {
    __syncthreads();
    if (turn != warp) continue;
#pragma unroll
    for (int i = 0; i < 64; i++) {
      int m = i / 16, n = i / 4 % 4, filter = lane / 4 * 8 + m * 2 + i % 4 / 2, column = n * 8 + lane % 4 * 2 + i % 2;
      float* at = shared + filter * 33 + column;  // 33: lanes meet in few banks
      *at = (turn == 0 ? 0.f : *at) + sum[m][n][i % 4];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 64 * 32; i += kWarps * 32) parts[i] = shared[i / 32 * 33 + i % 32];
}

extern "C" __global__ void __launch_bounds__(256, CONV_POOL ? 2 : 1) conv_c3_wgrad(const __grid_constant__ Body body) {
  extern __shared__ u32 band[];
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, filter = blockIdx.y * 64 + g * 8;
  constexpr int kSteps = (kQ + 7) / 8, kUnitSteps = kBandRows / 2 * kSteps;  // a step is four windows in a row
  int offset[4];
#pragma unroll
  for (int n = 0; n < 4; n++) {  // column g of block n is tap n * 8 + g; 27 to 30 are junk, 31 is one
    int tap = n * 8 + g;
    offset[n] = tap < 27 ? tap / 9 * kPairPitch + tap % 9 : 0;
  }
  float sum[4][4][4] = {};
#if CONV_ROWS
  fetch_rows(band, body.x, blockIdx.x);
#endif
  for (int unit = blockIdx.x; unit < CONV_IMAGES * kBands; unit += gridDim.x) {
    int image = unit / kBands, first = (unit - image * kBands) * kBandRows;
    auto at = [&](int step) {
      if (step >= kUnitSteps) return Gradients{};
      return load_gradients(body.dy, body.index, image, first + step / kSteps * 2, step % kSteps * 8 + t * 2, filter);
    };
    int step = threadIdx.x / 32;
    Gradients ahead[2] = {at(step), at(step + kWarps)};
    make_band(band, body, unit);
    for (; step < kUnitSteps; step += kWarps) {
      Gradients now = ahead[0];
      ahead[0] = ahead[1];
      ahead[1] = at(step + 2 * kWarps);
      const u32* from = band + step / kSteps * 2 * kPairPitch + 3 * (step % kSteps * 8 + t * 2);
      u32 b[4][2];
#pragma unroll
      for (int n = 0; n < 4; n++) {
        b[n][0] = from[offset[n]], b[n][1] = from[offset[n] + kPairPitch];
        if (n == 3 && g == 7) b[n][0] = b[n][1] = kOnes;
      }
#pragma unroll
      for (int m = 0; m < 4; m++) {
        u32 a[4];
        expand(now, m, a);
#pragma unroll
        for (int n = 0; n < 4; n++) mma(sum[m][n], a, b[n][0], b[n][1]);
      }
    }
  }
  write_parts(sum, reinterpret_cast<float*>(band), body.parts + (blockIdx.x * gridDim.y + blockIdx.y) * (64 * 32));
}

extern "C" __global__ void __launch_bounds__(256) conv_c3_wgrad_reduce(const __grid_constant__ Body body) {
  __shared__ float sums[8][32];
  int column = threadIdx.x % 32, share = threadIdx.x / 32, filter = blockIdx.x;
  const float* from = body.parts + blockIdx.y * (64 * 32) + filter * 32 + column;
  float sum = 0;
#pragma unroll 8
  for (int i = share; i < CONV_BLOCKS; i += 8) sum += from[static_cast<u64>(i) * gridDim.y * (64 * 32)];
  sums[share][column] = sum;
  __syncthreads();
  if (share != 0) return;
  for (int i = 1; i < 8; i++) sum += sums[i][column];
  int out = blockIdx.y * 64 + filter;
  if (column == 31) body.db[out] = sum;
  if (column >= 27) return;
#if CONV_OUT_FLOAT
  static_cast<float*>(body.dw)[out * 27 + column] = sum;
#else
  static_cast<u16*>(body.dw)[out * 27 + column] = static_cast<u16>(pack(sum, 0.f));
#endif
}
#endif
