// Turns matrices of elements of 1, 2 or 4 bytes: to[column][row] = from[row][column]. Products of 8-bit floats read
// both operands with their terms inside, images and filters go from one layout to another. Position by position, lines
// would be read many times: of 8192 x 8192 halves at a sixth of the copy rate.
//
// Square tiles with rows of 128 bytes pass through shared memory. A thread loads 16 bytes of a row, and stores 16 bytes
// of one column, or of 2 or 4 that share a word. Words are swizzled so that neither has bank conflicts.
//
// Body   Index; kBytes: of an element; kFromUnit, kToUnit: the bytes of an access, a power of two from kBytes to 16,
//        whose multiples are the addresses of lines of `from` and of `to` and their lengths; kRows, kColumns;
//        kFromPitch, kToPitch: elements between rows of `from` and between columns of `to`; const u8* from; u8* to;
//        void matrix(Index number, Index& from, Index& to) const: elements before a matrix.
// Launch 256 threads; a block for each tile, those across the columns first, then those down, then the matrices.
#pragma once

#include "types.cuh"

// 16 bytes, read and written in units, of which those from byte `end` on are not there.
template <int kUnit>
union TurnPiece {
  using Unit = typename Word<kUnit>::Type;
  u32 words[4];
  uint4 all;
  Unit units[16 / kUnit];

  __device__ void load(const u8* from, i64 end) {
#pragma unroll
    for (int i = 0; i < 16 / kUnit; ++i)
      if (i == 0 || i * kUnit < end) units[i] = __ldg(reinterpret_cast<const Unit*>(from) + i);
  }
  __device__ void store(u8* to, i64 end) const {
#pragma unroll
    for (int i = 0; i < 16 / kUnit; ++i)
      if (i == 0 || i * kUnit < end) reinterpret_cast<Unit*>(to)[i] = units[i];
  }
};

// columns[j] are elements j of the words: of four bytes a 4 x 4 matrix is turned at a time.
template <int kBytes>
__device__ void turn_words(const u32 (&words)[16 / kBytes], u32 (&columns)[4 / kBytes][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const u32* const rows = words + i * (4 / kBytes);
    if constexpr (kBytes == 4) columns[0][i] = rows[0];
    if constexpr (kBytes == 2)
      columns[0][i] = __byte_perm(rows[0], rows[1], 0x5410), columns[1][i] = __byte_perm(rows[0], rows[1], 0x7632);
    if constexpr (kBytes == 1) {
      const u32 a = __byte_perm(rows[0], rows[1], 0x5140), b = __byte_perm(rows[2], rows[3], 0x5140),
                c = __byte_perm(rows[0], rows[1], 0x7362), d = __byte_perm(rows[2], rows[3], 0x7362);
      columns[0][i] = __byte_perm(a, b, 0x5410), columns[1][i] = __byte_perm(a, b, 0x7632);
      columns[2][i] = __byte_perm(c, d, 0x5410), columns[3][i] = __byte_perm(c, d, 0x7632);
    }
  }
}

template <class Body>
__device__ void turn(const Body& body, u32 block) {
  using Index = typename Body::Index;
  constexpr int kBytes = Body::kBytes, kSide = 128 / kBytes, kPiece = 16 / kBytes, kWord = 4 / kBytes;  // elements
  const u32 across = static_cast<u32>((body.kColumns + kSide - 1) / kSide),
            tiles = static_cast<u32>((body.kRows + kSide - 1) / kSide) * across, number = block % tiles;
  const Index row0 = static_cast<Index>(number / across) * kSide, column0 = static_cast<Index>(number % across) * kSide;
  Index from = 0, to = 0;
  body.matrix(static_cast<Index>(block / tiles), from, to);
  __shared__ alignas(16) u32 tile[kSide * 32];
  const auto word_of = [](int row, int word) { return row * 32 + (word ^ row / kPiece * 4); };
  constexpr int kLoads = kSide / 32;
  TurnPiece<Body::kFromUnit> loaded[kLoads];
  const int line = threadIdx.x / 8, piece = threadIdx.x % 8;
  const Index left = column0 + piece * kPiece;
  const auto is_there = [&](int i) { return row0 + line + i * 32 < body.kRows && left < body.kColumns; };
#pragma unroll
  for (int i = 0; i < kLoads; ++i)
    if (is_there(i))
      loaded[i].load(body.from + static_cast<i64>(from + (row0 + line + i * 32) * body.kFromPitch + left) * kBytes,
                     static_cast<i64>(body.kColumns - left) * kBytes);
#pragma unroll
  for (int i = 0; i < kLoads; ++i)
    if (is_there(i)) *reinterpret_cast<uint4*>(tile + word_of(line + i * 32, piece * 4)) = loaded[i].all;
  __syncthreads();
  const Index top = row0 + piece * kPiece, column = column0 + line * kWord;
  if (top >= body.kRows || column >= body.kColumns) return;
  u32 words[kPiece], columns[kWord][4];
#pragma unroll
  for (int i = 0; i < kPiece; ++i) words[i] = tile[word_of(piece * kPiece + i, line)];
  turn_words<kBytes>(words, columns);
#pragma unroll
  for (int j = 0; j < kWord; ++j) {
    if (column + j >= body.kColumns) return;
    TurnPiece<Body::kToUnit> turned;
    turned.all = make_uint4(columns[j][0], columns[j][1], columns[j][2], columns[j][3]);
    turned.store(body.to + static_cast<i64>(to + (column + j) * body.kToPitch + top) * kBytes,
                 static_cast<i64>(body.kRows - top) * kBytes);
  }
}
