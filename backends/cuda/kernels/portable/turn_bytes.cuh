// Turns a matrix of 8-bit elements: to[column][row] = from[row][column]. Products of 8-bit floats read both operands
// with their terms inside, so the gradients of a linear layer turn theirs. Position by position, bytes of a line would
// be read 32 times.
//
// Tiles of 128 x 128 pass through shared memory. A thread loads pieces of 16 bytes of a row, and stores pieces of 16
// bytes of four columns, which it makes of 16 rows of one word. Words are swizzled so that neither has bank conflicts.
//
// Body   kRows, kColumns: sizes, multiples of 16; kFromPitch, kToPitch: bytes between rows of `from` and of `to`,
//        multiples of 16; const u8* from; u8* to, aligned to 16 bytes.
// Launch 256 threads; a block for each tile, those across the columns first.
#pragma once

#include "types.cuh"

// The four words whose bytes j are bytes `row` of word j: a 4 x 4 matrix of bytes turned.
__device__ inline void turn_words(const u32 (&rows)[4], u32 (&columns)[4]) {
  const u32 a = __byte_perm(rows[0], rows[1], 0x5140), b = __byte_perm(rows[2], rows[3], 0x5140),
            c = __byte_perm(rows[0], rows[1], 0x7362), d = __byte_perm(rows[2], rows[3], 0x7362);
  columns[0] = __byte_perm(a, b, 0x5410), columns[1] = __byte_perm(a, b, 0x7632);
  columns[2] = __byte_perm(c, d, 0x5410), columns[3] = __byte_perm(c, d, 0x7632);
}

template <class Body>
__device__ void turn_bytes(const Body& body) {
  constexpr int across = (Body::kColumns + 127) / 128;
  const int row0 = blockIdx.x / across * 128, column0 = blockIdx.x % across * 128;
  __shared__ alignas(16) u32 tile[128 * 32];
  const auto word_of = [](int row, int word) { return row * 32 + (word ^ row / 16 * 4); };
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = threadIdx.x / 8 + i * 32, word = threadIdx.x % 8 * 4;
    if (row0 + row >= Body::kRows || column0 + word * 4 >= Body::kColumns) continue;
    const u8* const from = body.from + static_cast<u64>(row0 + row) * Body::kFromPitch + column0 + word * 4;
    *reinterpret_cast<uint4*>(tile + word_of(row, word)) = __ldg(reinterpret_cast<const uint4*>(from));
  }
  __syncthreads();
  const int rows = threadIdx.x % 8 * 16, word = threadIdx.x / 8, column = column0 + word * 4;
  if (row0 + rows >= Body::kRows || column >= Body::kColumns) return;
  u32 turned[4][4];  // of each column, four rows in a word
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    u32 four[4], columns[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) four[j] = tile[word_of(rows + i * 4 + j, word)];
    turn_words(four, columns);
#pragma unroll
    for (int j = 0; j < 4; ++j) turned[j][i] = columns[j];
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
    *reinterpret_cast<uint4*>(body.to + static_cast<u64>(column + j) * Body::kToPitch + row0 + rows) =
        make_uint4(turned[j][0], turned[j][1], turned[j][2], turned[j][3]);
}
