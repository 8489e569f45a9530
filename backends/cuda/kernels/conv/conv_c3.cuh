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

#if CONV_GRAD
#include "conv_c3_wgrad.cuh"
#else
#include "conv_c3_forward.cuh"
#endif
