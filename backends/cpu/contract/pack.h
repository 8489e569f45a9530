// Packs operands in the order in which register tiles read them: panels of whole vectors, blocks of rows.
#pragma once

#include <cstring>
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

/// Writes a vector or, if it is used in part, its first lanes.
template <class T>
inline void store_some(Vector<T> value, std::int64_t used, T* to) {
  if (used >= kLanes<T>) return store(to, value);
  T edge[kLanes<T>];
  store(edge, value);
  std::copy_n(edge, used, to);
}

/// Half a vector is what tiles have of rows.
template <class T>
inline void store_half(Vector<T> value, T* to) {
  std::memcpy(to, &value, sizeof value / 2);
}

/// to[j * to_step + i] = from[i * from_step + j] for i < rows, at most kLanes of them, and kLanes values of j.
template <class T>
inline void transpose_square(const T* from, std::int64_t from_step, T* to, std::int64_t to_step,
                             std::int64_t rows = kLanes<T>) {
  constexpr int kWidth = kLanes<T>;
  Vector<T> row[kWidth], next[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) {
    const T* at = from + std::min<std::int64_t>(i, rows - 1) * from_step;
    __builtin_prefetch(at + 4 * kWidth);  // more rows than a processor follows by itself
    row[i] = load(at);
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
  for (int i = 0; i < kWidth; ++i) {
    if (rows == kWidth / 2)
      store_half(row[i], to + i * to_step);
    else
      store_some(row[i], rows, to + i * to_step);
  }
}

/// to[j * to_step + i] = from[i * from_step + j] for i < rows, j < columns.
template <class T>
void transpose(const T* from, std::int64_t from_step, std::int64_t rows, std::int64_t columns, T* to,
               std::int64_t to_step) {
  constexpr std::int64_t kWidth = kLanes<T>;
  if (rows >= kWidth / 2 - 1 && columns >= kWidth) {
    // The last squares overlap those before.
    for (std::int64_t i = 0; i < rows; i += kWidth)
      for (std::int64_t j = 0; j < columns; j += kWidth) {
        const std::int64_t row = std::max<std::int64_t>(0, std::min(i, rows - kWidth)),
                           column = std::min(j, columns - kWidth);
        const T* square = from + row * from_step + column;
        if (rows >= kWidth)
          transpose_square(square, from_step, to + column * to_step + row, to_step);
        else
          transpose_square(square, from_step, to + column * to_step + row, to_step, rows);
      }
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to[j * to_step + i] = from[i * from_step + j];
}

/// Prefetches the rows that a loop over channels reads a few channels on: they may be pages apart.
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
  } else if (lane_stride == 1 && lanes == width && width % kLanes<T> == 0) {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t lane = 0; lane < width; lane += kLanes<T>)
        store(to + k * width + lane, load(from + k * depth_stride + lane));
  } else if (lane_stride == 1 && lanes == kTileRows) {
    for (std::int64_t k = 0; k < depth; ++k) std::copy_n(from + k * depth_stride, kTileRows, to + k * width);
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
