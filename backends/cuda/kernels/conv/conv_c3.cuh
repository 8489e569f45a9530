// The first layer of a VGG-like net: 3x3 convolution of three channels, stride 1, with bias and ReLU, optionally fused
// with a 2x2 max pooling and its index; and the filter gradient, computed directly from the pooled gradient and index.
//
// Why      27 products per filter are far too few for the general kernel, and the bound is memory: here the un-pooled
//          output, its gradient and any mask are never written.
// Layout   x in its own layout (any strides), 16-bit, or stored in another type and computed by element() when loaded;
//          y [N][P][Q][K] (pooled: [N][P/2][Q/2][K], and one index byte for each element), w [K][3][3][3]; 16-bit.
// Forward  a block holds a band of rows of x in shared memory, twice: the second copy is shifted by one element, so
//          that pairs of neighbours are aligned words for odd pixels, too. A warp computes 2 rows x 16 pixels x 64
//          filters by mma.m16n8k16. The reduction is 3 rows of 9, each padded to 10, so that an operand register is one
//          4-byte load. Row g of a product is pixel 2g and row g + 8 pixel 2g + 1, so one thread has all four values of
//          a pooling window. Filters are permuted so that a thread's eight are neighbours: 16-byte stores.
// Gradient M = filters, N = 27 taps and a column of ones (the bias gradient), reduction = the four pixels of four
//          windows. A thread expands its windows' gradients by their index in registers; x is kept as words of two
//          neighbouring pixels. Blocks write fp32 partial sums, which conv_c3_wgrad_reduce adds in a fixed order.
// Limits   K a multiple of 64, pad 0 or 1. Any architecture from sm_80.
//
// Rows     CONV_ROWS: while a block works on a band, the next band's rows are copied to shared memory unchanged. From
//          there each thread converts pairs of pixels to words.
//
// Measured on an H200, VGG conv1 with pooling, batch 64: forward 91 us (memory bound 41; separately, cuDNN takes 400
// and PyTorch's pooling 617), filter gradient 95 us (bound 41; separately 312 and 1233). Without the pooling the
// forward pass takes 1.4 times its bound.
// What each idea gained: the bias from shared memory instead of global loads in the inner loop, and pitches without
// bank conflicts, 5 %; loading a band's rows ahead 113 -> 91 and 120 -> 95 us; two steps of gradients in flight 5 %;
// prefetching the next band's gradients into L2 lost 8 %. From bytes, with a scale and a shift per channel, the two
// passes took 105 and 109 us, from halves 101 and 101 in the same trace; a separate kernel that converts the bytes to
// halves takes at least 7.
//
// Compile-time, all required: CONV_IMAGES CONV_H CONV_W CONV_PAD CONV_K CONV_POOL CONV_GRAD NIXIE_BF16, and
//   CONV_X_N CONV_X_C CONV_X_H CONV_X_W    the strides of x in elements
//   CONV_ROWS                   1: rows of x are packed, and their addresses and sizes are multiples of 16 bytes
//   CONV_BIAS CONV_RELU         forward with pool
//   CONV_BLOCKS CONV_OUT_FLOAT  gradient: grid.x; the type of dw, float or 16-bit
// Kernel conv_c3: grid (any number of blocks, ideally two per SM; K / 64), block 256, dynamic shared memory
//   max(40 * kPitch, 40 * kPairPitch, 8448) bytes, 31 KB for W = 224; with ROWS also 30 * W stored elements and 16
//   bytes. The pooling compares rounded values, so results equal the unfused ones bit for bit.
// Kernel conv_c3_wgrad(body): dy is the gradient of y in the layout of y, already gated by y > 0 if there is a ReLU;
//   parts float[BLOCKS][K / 64][64 * 32]; the same grid, block and shared memory.
// Kernel conv_c3_wgrad_reduce(body): grid (64, K / 64), block 256; dw [K][27], db float[K].
// Defined before this file: Stored, the type in which x is stored, at most 2 bytes; element(body, stored, n, c, h, w),
// which computes an element of the image from its stored value; and Body, which holds x (const Stored*), and
//   forward: w (const u16*) and what conv_fprop_sm90.cuh says but Fixed, or with POOL w, bias (const float*), y (u16*),
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
// Pitches of a padded row, in 4-byte words, with room for what the last tile reads past its end. Their remainders
// modulo 32 put the elements of a window, row after row, into different banks.
constexpr int kReach = (kQ + 2 + 15) * 3;
constexpr int kPitch = 2 * ((kReach / 2 - 4 + 31) / 32 * 32 + 5), kPairPitch = (kReach - 9 + 31) / 32 * 32 + 9;
constexpr int kBands = (kP + kBandRows - 1) / kBandRows;
constexpr int kOutP = CONV_POOL ? kP / 2 : kP, kOutQ = CONV_POOL ? kQ / 2 : kQ;
// The bytes of a band in shared memory, and the offset of the rows behind it.
constexpr int kFormBytes = CONV_GRAD ? 40 * kPairPitch : 40 * kPitch;
constexpr int kRowsAt = ((kFormBytes > 8448 ? kFormBytes : 8448) + 15) / 16 * 16;
constexpr u32 kOnes = NIXIE_BF16 ? 0x3f803f80u : 0x3c003c00u;

NIXIE_DEVICE bool is_inside(int row, int column) { return row >= 0 && row < CONV_H && column >= 0 && column < CONV_W; }
// The bits of channel c of the pixel at a row and column.
NIXIE_DEVICE u32 bits_of(const Body& body, Stored stored, int n, int c, int row, int column) {
  return convert<Half>(element(body, stored, n, c, row, column)).bits;
}

// Writes a band to shared memory, from the images or from the rows fetched before.
NIXIE_DEVICE void load_band(u32* shared, const Body& body, int n, int first_row);

#if CONV_ROWS
constexpr int kLoadedRows = kBandRows + 2;
NIXIE_DEVICE Stored* rows_of(u32* shared) { return reinterpret_cast<Stored*>(shared + kRowsAt / 4); }

// Starts copying the rows of a unit's band as they are stored, [channel][row][W].
NIXIE_DEVICE void fetch_rows(u32* shared, const Stored* x, int unit) {
  constexpr int kPiece = 16 / sizeof(Stored), kPieces = CONV_W / kPiece;
  const int image = unit / kBands, first_row = (unit - image * kBands) * kBandRows;
  if (image >= CONV_IMAGES) return;
  const u32 to = shared_address(rows_of(shared));
  x += static_cast<u64>(image) * CONV_X_N;
#pragma unroll 1  // to save registers
  for (int i = threadIdx.x; i < 3 * kLoadedRows * kPieces; i += kWarps * 32) {
    const int line = i / kPieces, c = line / kLoadedRows, row = first_row + line % kLoadedRows - CONV_PAD;
    const bool there = row >= 0 && row < CONV_H;
    copy_piece(to + i * 16, x + c * CONV_X_C + (there ? row : 0) * CONV_X_H + i % kPieces * kPiece, there);
  }
}

// Calls act(row, pixel, elements) for pairs of pixels; elements are theirs and those of the next pixel.
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
      // Computed outside the image, too, so that the numbers of a channel are loaded once for all pixels.
      const u32 bits = bits_of(body, stored, n, j % 3, h, column);
      e[j] = inside ? bits : 0;
    }
    act(row, pixel, e);
  }
}
#else
// The bits of one element; zero outside the image.
NIXIE_DEVICE u32 pixel(const Body& body, int n, int row, int column, int c) {
  if (!is_inside(row, column)) return 0;
  const Stored* image = body.x + static_cast<u64>(n) * CONV_X_N;
  return bits_of(body, image[row * CONV_X_H + column * CONV_X_W + c * CONV_X_C], n, c, row, column);
}
#endif

// All threads together: writes a unit's band to shared memory, and starts to copy the rows of the block's next unit.
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
