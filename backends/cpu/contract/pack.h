// Packs operands in the order in which register tiles read them: panels of whole vectors, blocks of rows.
#pragma once

#include <utility>

#include "nixie/backends/cpu/contract/tile.h"

namespace nixie::cpu {

/// Interleaves the low (or high) halves of two vectors.
template <class T, bool kHigh>
inline Vector<T> interleave(Vector<T> a, Vector<T> b) {
  constexpr int kWidth = kLanes<T>;
  return [&]<int... i>(std::integer_sequence<int, i...>) {
    return __builtin_shufflevector(a, b, ((kHigh ? kWidth / 2 : 0) + i / 2 + (i % 2) * kWidth)...);
  }
  (std::make_integer_sequence<int, kWidth>{});
}

/// to[j * to_step + i] = from[i * from_step + j] for a square of kLanes by kLanes elements.
template <class T>
inline void transpose_square(const T* from, std::int64_t from_step, T* to, std::int64_t to_step) {
  constexpr int kWidth = kLanes<T>;
  Vector<T> row[kWidth], next[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) {
    __builtin_prefetch(from + i * from_step + 4 * kWidth);  // more rows than a processor follows by itself
    row[i] = load(from + i * from_step);
  }
  // A perfect shuffle of the rows, log2(width) times over, is the transpose.
#pragma GCC unroll 4
  for (int stage = 1; stage < kWidth; stage *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < kWidth / 2; ++i) {
      next[2 * i] = interleave<T, false>(row[i], row[i + kWidth / 2]);
      next[2 * i + 1] = interleave<T, true>(row[i], row[i + kWidth / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) row[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) store(to + i * to_step, row[i]);
}

/// to[j * to_step + i] = from[i * from_step + j] for i < rows, j < columns.
template <class T>
void transpose(const T* from, std::int64_t from_step, std::int64_t rows, std::int64_t columns, T* to,
               std::int64_t to_step) {
  constexpr std::int64_t kWidth = kLanes<T>;
  if (rows >= kWidth && columns >= kWidth) {
    // The last squares overlap those before.
    for (std::int64_t i = 0; i < rows; i += kWidth)
      for (std::int64_t j = 0; j < columns; j += kWidth) {
        const std::int64_t row = std::min(i, rows - kWidth), column = std::min(j, columns - kWidth);
        transpose_square(from + row * from_step + column, from_step, to + column * to_step + row, to_step);
      }
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to[j * to_step + i] = from[i * from_step + j];
}

/// Asks for what a loop over channels reads a few channels on: they may lie pages apart.
template <class T>
inline void prefetch_rows(const T* from, std::int64_t channel_stride, std::int64_t row_stride, std::int64_t rows) {
  constexpr std::int64_t kAhead = 4;
  for (std::int64_t r = 0; r < rows; ++r) __builtin_prefetch(from + kAhead * channel_stride + r * row_stride);
}

/// A panel of lanes: to[k * width + lane] = from[lane * lane_stride + k * depth_stride], zero from `lanes` to `width`.
template <class T>
void pack_lanes(const T* from, std::int64_t lane_stride, std::int64_t depth_stride, std::int64_t lanes,
                std::int64_t width, std::int64_t depth, T* to) {
  if (depth_stride == 1 && lane_stride != 1) {
    transpose(from, lane_stride, lanes, depth, to, width);
  } else if (lane_stride == 1 && lanes == width) {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t lane = 0; lane < width; lane += kLanes<T>)
        store(to + k * width + lane, load(from + k * depth_stride + lane));
  } else {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t lane = 0; lane < lanes; ++lane)
        to[k * width + lane] = from[lane * lane_stride + k * depth_stride];
  }
  if (lanes < width)
    for (std::int64_t k = 0; k < depth; ++k) std::fill(to + k * width + lanes, to + (k + 1) * width, T{});
}

/// A block of rows for one tile: to[k * rows + row] = from[row * row_stride + k * depth_stride].
template <class T>
void pack_rows(const T* from, std::int64_t row_stride, std::int64_t depth_stride, std::int64_t rows, std::int64_t depth,
               T* to) {
  if (row_stride == 1 && rows == kTileRows) {
    for (std::int64_t k = 0; k < depth; ++k) std::copy_n(from + k * depth_stride, kTileRows, to + k * kTileRows);
    return;
  }
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t row = 0; row < rows; ++row) to[k * rows + row] = from[row * row_stride + k * depth_stride];
}

}  // namespace nixie::cpu
