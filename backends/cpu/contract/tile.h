// The register-blocked microkernel of matmul and convolution: a tile of rows times vectors of lanes.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "nixie/backends/cpu/lanes/vector.h"

namespace nixie::cpu {

/// Accumulators (rows x vectors) plus operands must fit the register file: 32 registers with AVX-512, 16 before.
inline constexpr int kTileRows = kVectorBytes == 64 ? 8 : 4;
inline constexpr int kTileVectors = kVectorBytes == 16 ? 2 : 3;
/// Lanes of a full tile.
template <class T>
inline constexpr int kTileLanes = kTileVectors* kLanes<T>;

/// out[row][lane] (+)= sum over run, i of rows[row][run * jump + i * step] * lanes[(run * length + i) * lanes_step +
/// lane]; with offsets (and one run) the rows are read at rows[row][offsets[i]].
template <class T>
struct TileArgs {
  const T* rows[kTileRows];
  std::int64_t step = 1;  ///< elements between neighbours along the depth, within a run
  std::int64_t jump = 0;  ///< elements between the starts of runs
  std::int64_t runs = 1;
  std::int64_t length = 0;  ///< depth of a run
  const std::int64_t* offsets = nullptr;
  const T* lanes = nullptr;  ///< packed: whole vectors
  std::int64_t lanes_step = 0;
  T* out = nullptr;  ///< whole vectors
  std::int64_t out_step = 0;
  bool add = false;  ///< to what `out` holds
};

template <class T, int kRows, int kVectors, bool kOffsets>
void tile_kernel(const TileArgs<T>& args) {
  constexpr int kWidth = kLanes<T>;
  Vector<T> sum[kRows][kVectors] = {};
  const T* rows[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    rows[r] = args.rows[r];
    // The result's lines arrive while the sums are made.
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(args.out + r * args.out_step + v * kWidth, 1);
  }
  const T* lanes = args.lanes;
  const std::int64_t step = args.step, lanes_step = args.lanes_step, runs = kOffsets ? 1 : args.runs;
  for (std::int64_t run = 0; run < runs; ++run) {
    std::int64_t at = run * args.jump;
    for (std::int64_t i = 0; i < args.length; ++i, at += step, lanes += lanes_step) {
      if constexpr (kOffsets) at = args.offsets[i];
      Vector<T> lane[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) lane[v] = load(lanes + v * kWidth);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vector<T> row = broadcast(rows[r][at]);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) sum[r][v] = multiply_add<T>(row, lane[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      T* out = args.out + r * args.out_step + v * kWidth;
      store(out, args.add ? load(out) + sum[r][v] : sum[r][v]);
    }
  }
}

/// Runs a tile of `rows` <= kTileRows by `vectors` <= kTileVectors.
template <class T>
void run_tile(int rows, int vectors, const TileArgs<T>& args) {
  using Kernel = void (*)(const TileArgs<T>&);
  static constexpr auto kKernels = []<int... i>(std::integer_sequence<int, i...>) {
    return std::array<Kernel, 2 * sizeof...(i)>{&tile_kernel<T, i / kTileVectors + 1, i % kTileVectors + 1, false>...,
                                                &tile_kernel<T, i / kTileVectors + 1, i % kTileVectors + 1, true>...};
  }
  (std::make_integer_sequence<int, kTileRows * kTileVectors>{});
  const int kernel = (rows - 1) * kTileVectors + vectors - 1 + (args.offsets ? kTileRows * kTileVectors : 0);
  kKernels[static_cast<std::size_t>(kernel)](args);
}

}  // namespace nixie::cpu
