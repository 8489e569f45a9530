// Depthwise convolution: every channel has its own filters, one or a few. So it is memory-bound: it takes as long as
// reading and writing the images.
//
// Layout   images channels-last, filters [C][R][S]; storage f16, bf16 or f32, sums in floats.
// Threads  a thread owns CONV_LANES neighbouring channels of CONV_COLUMNS neighbouring columns and goes down the
//          rows of a strip. A row is read once and added to the sums of all result rows that use it, which stay in
//          registers, while cp.async loads the next rows into shared memory. If a window is too high for that
//          (CONV_SLIDES = 0), multiplications take longer than memory anyway, and each row of the result reads all its
//          source rows again. Wide windows are read in pieces (CONV_CUTS), whose columns registers hold: a signal's
//          window of 75 taps in four, with eight columns of four channels a thread.
// Roles    output and input gradient. An input gradient of stride 1 is the forward convolution of dy with the flipped
//          filter (CONV_TURNED). depthwise_wgrad.cuh has the filter gradient.
// Limits   channels of the result a multiple of CONV_LANES; input gradients: CONV_COLUMNS a multiple of the stride.
//
// What each idea gained on MobileNet's 112x112x32: pieces as words 78 -> 68 us, rows
// through shared memory 67 -> 57 us (0.85 of the copy rate).
//
// Storage  the type of images and filters, defined before this file.
// Body     struct Body { struct Loads; void load(int pixel, int channel, Loads&) const;
//          void run(int pixel, int channel, const Loads&, const float (&sum)[CONV_LANES]) const;
//          const Storage *source, *other; }, defined before this file: x and w, or dy and w.
// Compile-time: those of depthwise_rows.cuh; and those of parts.cuh if blocks leave parts of channels.
// Kernel depthwise(body): a thread for each piece of channels (rounded up to CONV_ACROSS), group of columns, strip and
//   image; with parts, PARTS blocks share the work on each CONV_ACROSS pieces.
#pragma once
#include "depthwise_rows.cuh"
#include "parts.cuh"

// The filters of a thread's channels: in registers, or in shared memory with those of all the block's channels, as
// floats [tap][lane].
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

// Adds row `u` of a step to the sums; `k` is the step modulo kLive. With CONV_SLIDES both are compile-time constants.
__device__ __forceinline__ void add_row(Sums& sums, const Row& row, const Source& source, bool there,
                                        const Filter& filter, const Input& input, int k, int u) {
  float x[kWidth][kSourceLanes];
  const Source::Mask inside = kMaps ? source.inside_of(Source::cut_of(u)) : 0;
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (is_read(i)) map_piece(row.piece[i], input, there && (inside >> i & 1), x[i]);
  const int first_tap = Source::cut_of(u) * kTapsAtOnce;
#pragma unroll
  for (int open = 0; open < kLive; ++open)
#pragma unroll
    for (int m = 0; m < kRowsOut; ++m) {
      const int r = filter_row(u, m, open), slot = (k + (kBack ? open : kLive - open)) % kLive;
      if (r < 0) continue;
#pragma unroll
      for (int s = 0; s < kTapsAtOnce; ++s) {
        if (CONV_S % kCuts != 0 && first_tap + s >= CONV_S) break;
        float w[kFilterLanes];
        filter.get(r * CONV_S + first_tap + s, w);
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

// The epilogue of a thread's channels: runs Body over complete sums, and accumulates their reductions.
struct Epilogue {
  const Body& body;
  const int channel;
#if PARTS_OF_CHANNELS
  Body::Fixed fixed;
  Body::Accumulators accumulators[kLanes];
  int seen = 0;
#endif

  __device__ Epilogue(const Body& body, int channel) : body(body), channel(channel) {
#if PARTS_OF_CHANNELS
    body.load(channel, fixed);
#endif
  }

  // The first pixel of row m of the results that a step completes, or -1 if they are not this thread's.
  __device__ int pixel_of(const Item& item, int step, int m) const {
    const int oldest = kBack ? step : step - (kLive - 1);
    const int row = kBack ? kStrideH * step - CONV_PAD_H + m : oldest * kClasses + item.row_class;
    const bool is_own = oldest >= item.first && oldest < item.last && row >= 0 && row < kResultH;
    return is_own ? (item.image * kResultH + row) * kResultW + item.column : -1;
  }

  // Stores the sums that a step completes, and resets them.
  __device__ __forceinline__ void retire(float (&sums)[kRowsOut][kColumns][kLanes], const Item& item, int step) {
#pragma unroll
    for (int m = 0; m < kRowsOut; ++m) {
      const int pixel = pixel_of(item, step, m);
      if (pixel >= 0) store(sums[m], item, pixel);
#pragma unroll
      for (int t = 0; t < kColumns; ++t)
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane) sums[m][t][lane] = 0;
    }
  }

  __device__ __forceinline__ void store(const float (&sums)[kColumns][kLanes], const Item& item, int pixel) {
    Body::Loads loads[kColumns];
#pragma unroll
    for (int t = 0; t < kColumns; ++t)
      if (item.column + t < kResultW) body.load(pixel + t, channel, loads[t]);
#pragma unroll
    for (int t = 0; t < kColumns; ++t)
      if (item.column + t < kResultW)
#if PARTS_OF_CHANNELS
        body.run(pixel + t, channel, fixed, loads[t], sums[t], accumulators, ++seen);
#else
        body.run(pixel + t, channel, loads[t], sums[t]);
#endif
  }

#if PARTS_OF_CHANNELS
  // Called by all threads of a block. `active`: this thread has channels.
  __device__ void leave(bool active) {
    auto* const parts = reinterpret_cast<Body::Accumulators*>(shared_memory);  // [threads / across][across][lanes]
    __syncthreads();
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      accumulators[lane].saw(active ? seen : 0);
      parts[threadIdx.x * kLanes + lane] = accumulators[lane];
    }
    __syncthreads();
    constexpr int columns = kAcross * kLanes;
    leave_parts(body, parts, columns * sizeof(Body::Accumulators), CONV_THREADS / kAcross,
                blockIdx.x % kPieceBlocks * columns, columns, blockIdx.x / kPieceBlocks, PARTS, threadIdx.x,
                CONV_THREADS);
  }
#endif
};

// Columns [item.column, + kColumns) of a strip.
__device__ __forceinline__ void convolve(const Body& body, const Item& item, const Filter& filter, const Input& input,
                                         Epilogue& epilogue) {
  auto& ring = *reinterpret_cast<RowsAhead::Memory*>(shared_memory);
  const Source source(body.source, item, epilogue.channel);
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
      const int slot = kBack ? k : (k + 1) % kLive;  // slot of the oldest results
      epilogue.retire(sums[slot], item, step);
    }
  }
}

extern "C" __global__ void __launch_bounds__(CONV_THREADS, CONV_BLOCKS) depthwise(const __grid_constant__ Body body) {
  float* const memory = reinterpret_cast<float*>(shared_memory + kRingBytes);
  const int block = blockIdx.x / kPieceBlocks, piece = blockIdx.x % kPieceBlocks * kAcross + threadIdx.x % kAcross;
  constexpr int rows = CONV_THREADS / kAcross;
  const int index = block * rows + threadIdx.x / kAcross;
  const int channel = (piece < kPieces ? piece : kPieces - 1) * kLanes;
  const Filter filter(body, channel, memory);
#if PARTS_OF_CHANNELS
  const Input input(body, source_channel(channel));
  Epilogue epilogue(body, channel);
  for (int i = piece < kPieces ? index : kItems; i < kItems; i += PARTS * rows) {
    convolve(body, Item(i), filter, input, epilogue);
    asm volatile("cp.async.wait_all;" ::: "memory");  // the next item's rows reuse the ring
  }
  epilogue.leave(piece < kPieces);
#else
  if (piece >= kPieces || index >= kItems) return;
  const Input input(body, source_channel(channel));
  Epilogue epilogue(body, channel);
  convolve(body, Item(index), filter, input, epilogue);
#endif
}
