// Depthwise convolution: every channel has its own filters, one or a few, so it is memory-bound: its time is that of
// reading and writing images.
//
// Layout   images channels-last, filters [C][R][S]; storage f16, bf16 or f32, sums in floats.
// Threads  a thread owns CONV_LANES neighbouring channels of CONV_COLUMNS neighbouring columns and goes down the
//          rows of a strip. A row is read once and added to the sums of all result rows that use it, which stay in
//          registers, while cp.async loads the next rows into shared memory. If a window is too high for that
//          (CONV_SLIDES = 0), and multiplications take longer than memory anyway, each row of the result reads all its
//          rows again.
// Roles    output and input gradient. An input gradient of stride 1 is the output over dy with the filter flipped
//          (CONV_TURNED). depthwise_wgrad.cuh has the filter gradient.
// Limits   channels of the result a multiple of CONV_LANES; input gradients: CONV_COLUMNS a multiple of the stride.
//
// Measured: docs/performance-log.md. What the ideas bought, MobileNet's 112x112x32: pieces as words 78 -> 68 us, rows
// through shared memory 67 -> 57 (0.85 of the copy rate).
//
// Storage  the type of images and filters, defined before this file.
// Body     struct Body { struct Loads; void load(int pixel, int channel, Loads&) const;
//          void run(int pixel, int channel, const Loads&, const float (&sum)[CONV_LANES]) const;
//          const Storage *source, *other; }, defined before this file: x and w, or dy and w.
// Compile-time: those of depthwise_rows.cuh.
// Kernel depthwise(body): a thread for each piece of channels (rounded up to CONV_ACROSS), group of columns, strip and
//   image.
#pragma once
#include "depthwise_rows.cuh"

// The filters of a thread's channels: in registers, or as floats [tap][lane] of a block's channels in shared memory.
constexpr bool kHeld = kSlides && kTaps * kFilterLanes <= 80;
struct Filter {
  float held[kHeld ? kTaps * kFilterLanes : 1];
  const float* shared;

  __device__ Filter(const Body& body, int channel, float* memory) {
    const Storage* from = body.other + static_cast<long long>(channel) * kTerms * kTaps;
    if constexpr (kHeld) {
#pragma unroll
      for (int i = 0; i < kTaps; ++i) {
        float piece[kFilterLanes];
        widen_piece<kFilterLanes>(load_piece<kFilterLanes>(from + i * kFilterLanes, true), piece);
#pragma unroll
        for (int j = 0; j < kFilterLanes; ++j) {
          const int lane = (i * kFilterLanes + j) / kTaps, tap = (i * kFilterLanes + j) % kTaps;
          held[(CONV_TURNED ? kTaps - 1 - tap : tap) * kFilterLanes + lane] = piece[j];
        }
      }
    } else {
      const int own = threadIdx.x % kAcross;
      shared = memory + own * kFilterLanes;
      for (int i = threadIdx.x / kAcross; i < kTaps; i += CONV_THREADS / kAcross)
#pragma unroll
        for (int lane = 0; lane < kFilterLanes; ++lane)
          memory[((CONV_TURNED ? kTaps - 1 - i : i) * kAcross + own) * kFilterLanes + lane] =
              widen(from[lane * kTaps + i]);
      __syncthreads();
    }
  }
  __device__ void get(int tap, float (&w)[kFilterLanes]) const {
    if constexpr (kHeld) {
#pragma unroll
      for (int lane = 0; lane < kFilterLanes; ++lane) w[lane] = held[tap * kFilterLanes + lane];
    } else {
      constexpr int wide = kFilterLanes % 4 == 0 ? 4 : kFilterLanes % 2 == 0 ? 2 : 1;
#pragma unroll
      for (int i = 0; i < kFilterLanes; i += wide) {
        const auto piece = *reinterpret_cast<const Vector<float, wide>*>(shared + tap * kAcross * kFilterLanes + i);
#pragma unroll
        for (int lane = 0; lane < wide; ++lane) w[i + lane] = piece.lane[lane];
      }
    }
  }
};

using Sums = float[kLive][kRowsOut][kColumns][kLanes];

// Adds row `u` of a step; `k`: the step modulo kLive. Where rows slide both are known when compiled.
__device__ __forceinline__ void add_row(Sums& sums, const Row& row, const Source& source, bool there,
                                        const Filter& filter, const Input& input, int k, int u) {
  float x[kWidth][kSourceLanes];
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (is_read(i)) map_piece(row.piece[i], input, there && (source.inside >> i & 1), x[i]);
#pragma unroll
  for (int open = 0; open < kLive; ++open)
#pragma unroll
    for (int m = 0; m < kRowsOut; ++m) {
      const int r = filter_row(u, m, open), slot = (k + (kBack ? open : kLive - open)) % kLive;
      if (r < 0) continue;
#pragma unroll
      for (int s = 0; s < CONV_S; ++s) {
        float w[kFilterLanes];
        filter.get(r * CONV_S + s, w);
#pragma unroll
        for (int t = 0; t < kColumns; ++t) {
          if (place(t, s) < 0) continue;
#pragma unroll
          for (int i = 0; i < kFilterLanes; ++i) {
            float& sum = sums[slot][m][t][i / kTerms];
            sum = fmaf(x[place(t, s)][source_lane(i / kTerms, i % kTerms)], w[i], sum);
          }
        }
      }
    }
}

// Stores what is complete after a step, and makes room for the next sums.
__device__ __forceinline__ void retire(const Body& body, float (&sums)[kRowsOut][kColumns][kLanes], const Item& item,
                                       int channel, int step, bool stores) {
#pragma unroll
  for (int m = 0; m < kRowsOut; ++m) {
    const int row = kBack ? kStrideH * step - CONV_PAD_H + m : (step - (kLive - 1)) * kClasses + item.row_class;
    if (stores && row >= 0 && row < kResultH) {
      const int pixel = (item.image * kResultH + row) * kResultW + item.column;
      Body::Loads loads[kColumns];
#pragma unroll
      for (int t = 0; t < kColumns; ++t)
        if (item.column + t < kResultW) body.load(pixel + t, channel, loads[t]);
#pragma unroll
      for (int t = 0; t < kColumns; ++t)
        if (item.column + t < kResultW) body.run(pixel + t, channel, loads[t], sums[m][t]);
    }
#pragma unroll
    for (int t = 0; t < kColumns; ++t)
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) sums[m][t][lane] = 0;
  }
}

extern "C" __global__ void __launch_bounds__(CONV_THREADS, CONV_BLOCKS) depthwise(const __grid_constant__ Body body) {
  auto& ring = *reinterpret_cast<RowsAhead::Memory*>(shared_memory);
  float* const memory = reinterpret_cast<float*>(shared_memory + kRingBytes);
  const int block = blockIdx.x / kPieceBlocks, piece = blockIdx.x % kPieceBlocks * kAcross + threadIdx.x % kAcross;
  const int index = block * (CONV_THREADS / kAcross) + threadIdx.x / kAcross;
  const int channel = (piece < kPieces ? piece : kPieces - 1) * kLanes;
  const Filter filter(body, channel, memory);
  if (piece >= kPieces || index >= kItems) return;
  const Input input(body, source_channel(channel));
  const Item item(index);
  const Source source(body.source, item, channel);
  Sums sums = {};
  const int begin = kBack ? item.first - (kLive - 1) : item.first, end = kBack ? item.last : item.last + kLive - 1;
  RowsAhead rows(ring, source, begin, end);
  for (int turn = begin; turn < end; turn += kLive) {
#pragma unroll
    for (int k = 0; k < kLive; ++k) {
      const int step = turn + k;
      if (step >= end) break;
#pragma unroll(kSlides ? kRowsIn : 1)
      for (int u = 0; u < kRowsIn; ++u) {
        const Row row = rows.take(source, step, u, end);
        add_row(sums, row, source, source.has(source.row_of(step, u)), filter, input, k, u);
      }
      const int slot = kBack ? k : (k + 1) % kLive;  // of the oldest results
      retire(body, sums[slot], item, channel, step, kBack ? step >= item.first : step - (kLive - 1) >= item.first);
    }
  }
}
