// The filter gradient of depthwise convolutions: rows of dy stay in registers, and each row of x is added to the sums
// of all taps that use it.
//
// A thread processes its block's strips one after the other. A block adds the sums of its threads and stores them;
// depthwise_reduce adds the sums of all blocks; both in a fixed order. If a window has too many taps for registers
// (CONV_SLIDES = 0), a block computes one row of the filter.
//
// Storage  the type of dy and x, defined before this file.
// Body     struct Body { struct Loads; void load(int number, int, Loads&) const;
//          void run(int number, int, const Loads&, const float (&sum)[1]) const;
//          const Storage *source, *other; float* parts; }, defined before this file. source is x, other is dy; parts
//          has CONV_SHARES * R * S * K numbers. `number` is an index into the filters [K][R][S].
// Compile-time: those of depthwise_rows.cuh, and
//   CONV_SHARES                     blocks that share the pixels
// Kernels  depthwise_wgrad(body): CONV_SHARES blocks for each CONV_ACROSS pieces of channels, and each row of the
//          filter unless rows are read once; depthwise_reduce(body): a block of 512 for every 16 numbers of the
//          filters.
#pragma once
#include "depthwise_rows.cuh"

using Sums = float[kOwnTaps][kLanes];
using Gradients = float[kLive][kColumns][kLanes];

__device__ __forceinline__ void load_gradients(const Storage* dy, const Item& item, int channel, int step,
                                               PieceOf<kLanes> (&to)[kColumns]) {
  const int row = step * kClasses + item.row_class;
  const bool there = step < item.last && row < CONV_P;
  const Storage* from =
      dy + (static_cast<long long>(item.image * CONV_P + row) * CONV_Q + item.column) * kResultC + channel;
#pragma unroll
  for (int t = 0; t < kColumns; ++t) to[t] = load_piece<kLanes>(from + t * kResultC, there && item.column + t < CONV_Q);
}

__device__ __forceinline__ void add_products(Sums& sums, const Gradients& dy, const Row& row, const Source& source,
                                             const Input& input, int k, int u) {
  float x[kWidth][kSourceLanes];
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (is_read(i)) map_piece(row.piece[i], input, source.inside >> i & 1, x[i]);
#pragma unroll
  for (int open = 0; open < kLive; ++open) {
    const int r = kBands > 1 ? 0 : filter_row(u, 0, open), slot = (k + kLive - open) % kLive;
    if (r < 0) continue;
#pragma unroll
    for (int s = 0; s < CONV_S; ++s)
#pragma unroll
      for (int t = 0; t < kColumns; ++t)
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane)
          sums[r * CONV_S + s][lane] =
              fmaf(x[place(t, s)][source_lane(lane, 0)], dy[slot][t][lane], sums[r * CONV_S + s][lane]);
  }
}

// Adds all products of a strip. Rows outside the image, of which small planes have many, cost none.
__device__ __forceinline__ void add_strip(Sums& sums, const Body& body, const Item& item, const Input& input,
                                          int channel, int band, RowsAhead::Memory& ring) {
  const Source source(body.source, item, channel, band);
  Gradients dy = {};
  const int end = item.last + kLive - 1;
  RowsAhead rows(ring, source, item.first, end);
  PieceOf<kLanes> next_dy[kColumns];
  load_gradients(body.other, item, channel, item.first, next_dy);
  for (int turn = item.first; turn < end; turn += kLive) {
#pragma unroll
    for (int k = 0; k < kLive; ++k) {
      const int step = turn + k;
      if (step >= end) break;
#pragma unroll
      for (int t = 0; t < kColumns; ++t) widen_piece<kLanes>(next_dy[t], dy[k][t]);
      load_gradients(body.other, item, channel, step + 1, next_dy);
#pragma unroll
      for (int u = 0; u < kRowsIn; ++u) {
        const Row row = rows.take(source, step, u, end);
        if (!kSlides || source.has(source.row_of(step, u))) add_products(sums, dy, row, source, input, k, u);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(CONV_THREADS, CONV_BLOCKS)
    depthwise_wgrad(const __grid_constant__ Body body) {
  constexpr int rows = CONV_THREADS / kAcross;
  constexpr int kTogether = 8 / kLanes, kChannels = kAcross * kLanes;  // taps that are added at a time
  __shared__ Vector<float, kLanes> memory[kTogether][CONV_THREADS];
  auto& ring = *reinterpret_cast<RowsAhead::Memory*>(shared_memory);
  const int band = blockIdx.x % kBands, block = blockIdx.x / kBands, share = block / kPieceBlocks;
  const int own = threadIdx.x % kAcross, y = threadIdx.x / kAcross, first_piece = block % kPieceBlocks * kAcross;
  const int piece = first_piece + own;
  const int channel = (piece < kPieces ? piece : kPieces - 1) * kLanes;
  const Input input(body, source_channel(channel));
  Sums sums = {};
  if (piece < kPieces)
    for (int index = share * rows + y; index < kItems; index += CONV_SHARES * rows)
      add_strip(sums, body, Item(index), input, channel, band, ring);
#pragma unroll
  for (int first = 0; first < kOwnTaps; first += kTogether) {
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kTogether && first + t < kOwnTaps; ++t)
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) memory[t][threadIdx.x].lane[lane] = sums[first + t][lane];
    __syncthreads();
    for (int i = threadIdx.x; i < kTogether * kChannels; i += CONV_THREADS) {
      const int t = i / kChannels, of = i % kChannels, c = first_piece * kLanes + of;
      if (first + t >= kOwnTaps || c >= kResultC) continue;
      float sum = 0;
      for (int part = 0; part < rows; ++part) sum += memory[t][part * kAcross + of / kLanes].lane[of % kLanes];
      body.parts[(static_cast<long long>(share) * kTaps + band * kOwnTaps + first + t) * kResultC + c] = sum;
    }
  }
}

// A block adds the sums of 16 filter elements. 32 threads for each add every 32nd share; their sums are added in order.
extern "C" __global__ void __launch_bounds__(512) depthwise_reduce(const __grid_constant__ Body body) {
  __shared__ float memory[32][16];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16, at = blockIdx.x * 16 + x;
  float sum = 0;
  if (at < kTaps * kResultC)
#pragma unroll 8
    for (int share = y; share < CONV_SHARES; share += 32)
      sum += body.parts[static_cast<long long>(share) * kTaps * kResultC + at];
  memory[y][x] = sum;
  __syncthreads();
  if (y > 0 || at >= kTaps * kResultC) return;
  float all[1] = {0};
  for (int part = 0; part < 32; ++part) all[0] += memory[part][x];
  const int pixel = at % kResultC * kTaps + at / kResultC;  // of the filter
  Body::Loads loads;
  body.load(pixel, 0, loads);
  body.run(pixel, 0, loads, all);
}
