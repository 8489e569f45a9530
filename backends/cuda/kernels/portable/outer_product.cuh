// A small-K product with an epilogue: out[row, column] = Body(sum over terms of a[term, row] * b[term, column]). This
// is the weight gradient of a linear layer (its terms are the batch, a few hundred at most). Body is usually the update
// of the weights, so the gradient itself is never written.
//
// Layout   a [TERMS][ROWS], b [TERMS][COLUMNS], 16-bit, rows of 16-byte pieces. A block computes 64 x 128 sums, with
//          2 x 4 warps of 32 x 32 sums by mma.sync. From sm_80 on.
// Order    memory-bound: an update moves 18 bytes per weight for 2 * TERMS operations. A block issues the loads of its
//          operands, then Body's loads for the 32 weights of each thread, and multiplies while these are in flight;
//          two blocks per SM keep 128 KB in flight.
// Result   the sums pass through shared memory, in the operands' buffer, so that a warp reads and writes 128
//          neighbours of a row, 16 bytes of f32 per lane.
// Limits   ROWS and COLUMNS multiples of 8.
//
// Compile-time, all required: OUTER_ROWS, OUTER_COLUMNS, OUTER_TERMS; NIXIE_BF16 0 or 1.
// Body, defined before this file: const u16 *a, *b; void load(int row, int column, Loads&) const and void run(int row,
// int column, const Loads&, const float (&sum)[4]) const for 4 neighbouring columns.
// Kernel outer_product(body): one block of 256 threads per tile, columns first; dynamic shared memory 192 * 2 bytes
// for each of min(TERMS rounded up to 16, 128) terms, at least 64 * 132 * 4.
#pragma once
#include "parts.cuh"
#include "ptx.cuh"

constexpr int kRows = OUTER_ROWS, kColumns = OUTER_COLUMNS, kTerms = OUTER_TERMS;
constexpr int kTileM = 64, kTileN = 128, kThreads = 256;
constexpr int kChunk = kTerms > 128 ? 128 : (kTerms + 15) / 16 * 16;  // terms in shared memory at a time
constexpr int kBytesA = kTileM * 2, kBytesB = kTileN * 2;             // per term
constexpr int kPitch = kTileN + 4;                                    // floats per row of sums
constexpr int kGroups = kTileM * kTileN / 4 / kThreads;               // of four neighbours, per thread

// The position of a 16-byte piece is swizzled by its term, so that the same piece of 8 terms is in different banks.
template <int kBytes>
NIXIE_DEVICE u32 piece(u32 base, int term, int index) {
  return base + term * kBytes + ((index ^ term % 8) << 4);
}

// Copies terms [first, first + kChunk) of one operand to shared memory; zeros past the last term and the extent.
template <int kBytes, int kExtent>
NIXIE_DEVICE void fetch(u32 base, const u16* from, int origin, int first) {
  constexpr int kPieces = kBytes / 16;
#pragma unroll 4
  for (int i = threadIdx.x; i < kChunk * kPieces; i += kThreads) {
    const int term = i / kPieces, index = i % kPieces, at = origin + index * 8;
    const bool there = (kTerms % kChunk == 0 || first + term < kTerms) && (kExtent * 2 % kBytes == 0 || at < kExtent);
    copy_piece(piece<kBytes>(base, term, index), there ? from + static_cast<u64>(first + term) * kExtent + at : from,
               there);
  }
}

// Multiplies one chunk: warp (wm, wn) adds to its 32 x 32 sums.
NIXIE_DEVICE void multiply(float (&sums)[2][4][4], u32 a, u32 b, int wm, int wn) {
  const int lane = threadIdx.x % 32, low = lane % 8, middle = lane / 8 % 2, high = lane / 16;
#pragma unroll 1  // leaves the registers to Body
  for (int k = 0; k < kChunk; k += 16) {
    u32 x[2][4], y[2][4];
#pragma unroll
    for (int i = 0; i < 2; i++) load_transposed(x[i], piece<kBytesA>(a, k + high * 8 + low, wm * 4 + i * 2 + middle));
#pragma unroll
    for (int j = 0; j < 2; j++) load_transposed(y[j], piece<kBytesB>(b, k + middle * 8 + low, wn * 4 + j * 2 + high));
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) mma(sums[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
  }
}

// With several chunks, the sums stay in registers between them, which leaves registers for one block only.
extern "C" __global__ void __launch_bounds__(kThreads, kTerms > kChunk ? 1 : 2)
    outer_product(const __grid_constant__ Body body) {
  extern __shared__ uint4 dynamic[];
  const u32 a = shared_address(dynamic), b = a + kChunk * kBytesA;
  constexpr int kTilesN = (kColumns + kTileN - 1) / kTileN;
  const int row = blockIdx.x / kTilesN * kTileM, column = blockIdx.x % kTilesN * kTileN;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / 4, wn = warp % 4;
  // This thread's results: four columns of rows warp, warp + 8, ...
  const int mine = column + lane * 4;
  auto inside = [&](int i) {
    return (kRows % kTileM == 0 || row + warp + i * 8 < kRows) && (kColumns % kTileN == 0 || mine < kColumns);
  };

  Body::Loads loads[kGroups];
  float sums[2][4][4] = {};
#pragma unroll 1
  for (int first = 0; first < kTerms; first += kChunk) {
    if (first > 0) __syncthreads();  // all threads are done with the previous chunk
    fetch<kBytesA, kRows>(a, body.a, row, first);
    fetch<kBytesB, kColumns>(b, body.b, column, first);
    if (first + kChunk >= kTerms)
#pragma unroll
      for (int i = 0; i < kGroups; i++)
        if (inside(i)) body.load(row + warp + i * 8, mine, loads[i]);
    copies_wait();
    __syncthreads();
    multiply(sums, a, b, wm, wn);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        store_shared(a + ((wm * 32 + i * 16 + half * 8 + lane / 4) * kPitch + wn * 32 + j * 8 + lane % 4 * 2) * 4,
                     make_float2(sums[i][j][half * 2], sums[i][j][half * 2 + 1]));
  __syncthreads();
  BlockParts<1> parts;
#pragma unroll
  for (int i = 0; i < kGroups; i++) {
    const float4 v = load_shared(a + ((warp + i * 8) * kPitch + lane * 4) * 4);
    const float sum[4] = {v.x, v.y, v.z, v.w};
    if (inside(i)) body.run(row + warp + i * 8, mine, loads[i], sum AND_PARTS(parts));
  }
#ifdef PARTS
  auto* const rows = reinterpret_cast<Body::Accumulators*>(dynamic);
  __syncthreads();  // all threads have read their sums
  parts.write(rows + warp);
  __syncthreads();
  leave_parts(body, rows, sizeof(Body::Accumulators), kThreads / 32, 0, 1, blockIdx.x, gridDim.x, threadIdx.x,
              kThreads);
#endif
}
