// Shared by the depthwise convolutions (depthwise.cuh, depthwise_wgrad.cuh): how the work is divided among threads, and
// the pipeline of source rows into shared memory.
//
// Dynamic shared memory: (CONV_AHEAD + 1) * CONV_THREADS * (columns that a thread reads) * (bytes of a piece), rounded
// up to 16 bytes, then, as floats, the filters if registers do not hold them.
// Compile-time, all required:
//   CONV_ROLE                       0 output, 1 input gradient, 2 filter gradient
//   CONV_C CONV_FILTERS CONV_R CONV_S   channels of x, of y (as many or a multiple), window
//   CONV_TURNED                     0 or 1; 1: role 0 computes dx from dy, with the filter reversed
//   CONV_IMAGES CONV_H CONV_W CONV_P CONV_Q   sizes of x and of y; turned: of dy and of dx
//   CONV_STRIDE_H/_W CONV_PAD_H/_W CONV_DILATION_H/_W
//   CONV_LANES CONV_COLUMNS         channels and columns of the result that a thread computes; for an input gradient it
//                                   reads dy of all filters of these channels, otherwise one channel of x may serve
//                                   several filters
//   CONV_SLIDES                     0 or 1; 1: each source row is read once
//   CONV_CUTS                       pieces in which the window's rows are read and multiplied, one after the other; 1
//                                   but for roles 0 without CONV_SLIDES
//   CONV_STEPS                      rows of y in a strip (input gradient: rows of dy)
//   CONV_AHEAD                      source rows in flight while one is used
//   CONV_ACROSS                     pieces of channels side by side in a block; divides CONV_THREADS
//   CONV_THREADS CONV_BLOCKS        threads per block; blocks that must be resident on an SM
#pragma once
#include "types.cuh"

constexpr int kLanes = CONV_LANES, kColumns = CONV_COLUMNS, kAcross = CONV_ACROSS, kTaps = CONV_R * CONV_S;
constexpr bool kBack = CONV_ROLE == 1, kFilter = CONV_ROLE == 2, kSlides = CONV_SLIDES;
constexpr int kCuts = CONV_CUTS, kTapsAtOnce = (CONV_S + kCuts - 1) / kCuts;  // the last piece may have fewer
constexpr int kMany = CONV_FILTERS / CONV_C;                                  // filters per channel
constexpr bool kToInput = kBack || CONV_TURNED, kGathers = kToInput && kMany > 1;
constexpr int kResultC = kToInput ? CONV_C : CONV_FILTERS, kSourceC = kToInput ? CONV_FILTERS : CONV_C;
constexpr int kTerms = kGathers ? kMany : 1, kFilterLanes = kLanes * kTerms;  // filters per lane, per thread
constexpr int kSourceLanes = kToInput ? kFilterLanes : kLanes > kMany ? kLanes / kMany : 1;
constexpr int kPieces = kResultC / kLanes, kPieceBlocks = (kPieces + kAcross - 1) / kAcross;
static_assert(CONV_FILTERS % CONV_C == 0 && kResultC % kLanes == 0 && CONV_THREADS % kAcross == 0);
static_assert(kToInput || kLanes % kMany == 0 || kMany % kLanes == 0);
// The source lane of one term of a lane's sum; and the source channel for a channel of the result.
__host__ __device__ constexpr int source_lane(int lane, int term) {
  return kGathers ? lane * kMany + term : lane * kSourceLanes / kLanes;
}
__device__ inline int source_channel(int channel) { return kToInput ? channel * kMany : channel / kMany; }
static_assert(!kBack || kColumns % CONV_STRIDE_W == 0);

// With stride 1 and dilation d, rows fall into d independent classes, each a convolution of dilation 1.
constexpr int kClasses = kSlides && !kBack && CONV_STRIDE_H == 1 ? CONV_DILATION_H : 1;
constexpr int kStrideH = CONV_STRIDE_H, kDilationH = kClasses > 1 ? 1 : CONV_DILATION_H;
constexpr int kReach = (CONV_R - 1) * kDilationH / kStrideH + 1;  // steps that a row of the result spans
constexpr int kLive = kSlides ? kReach : 1;                       // steps whose sums are incomplete
constexpr int kRowsOut = kBack ? kStrideH : 1;                    // rows that a step completes
constexpr int kRowsIn =                                           // rows that a step reads
    kSlides   ? (kBack ? 1 : kStrideH)
    : kBack   ? kReach
    : kFilter ? 1
              : CONV_R * kCuts;
static_assert(kCuts == 1 || (!kSlides && !kBack && !kFilter));
constexpr int kBands = kFilter && !kSlides ? CONV_R : 1;  // filter rows that separate blocks compute
constexpr int kOwnTaps = kTaps / kBands;

// Division rounded down; the divisor is positive.
__host__ __device__ constexpr int down(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

constexpr int kResultH = kBack ? CONV_H : CONV_P, kResultW = kBack ? CONV_W : CONV_Q;
constexpr int kSourceH = kBack ? CONV_P : CONV_H, kSourceW = kBack ? CONV_Q : CONV_W;
constexpr int kGroups = (kResultW + kColumns - 1) / kColumns;
constexpr int kFirstStep = kBack ? CONV_PAD_H / kStrideH : 0;
constexpr int kSteps =
    kBack ? (CONV_H - 1 + CONV_PAD_H) / kStrideH + 1 - kFirstStep : (CONV_P + kClasses - 1) / kClasses;
constexpr int kStrips = (kSteps + CONV_STEPS - 1) / CONV_STEPS;
constexpr int kItems = CONV_IMAGES * kClasses * kStrips * kGroups;  // per piece of channels

// The source columns that a group of result columns reads: kWidth places from column kNear on, relative to the group.
constexpr int kNear = kBack ? down(CONV_PAD_W - (CONV_S - 1) * CONV_DILATION_W, CONV_STRIDE_W) : -CONV_PAD_W;
constexpr int kWidth = (kBack ? down(kColumns - 1 + CONV_PAD_W, CONV_STRIDE_W)
                              : (kColumns - 1) * CONV_STRIDE_W + (kTapsAtOnce - 1) * CONV_DILATION_W - CONV_PAD_W) -
                       kNear + 1;
constexpr int kCutColumns = kTapsAtOnce * CONV_DILATION_W;  // from one piece of the window to the next
// The place that column t of the result reads for tap s of a piece of the window, or -1.
__host__ __device__ constexpr int place(int t, int s) {
  if (!kBack) return t * CONV_STRIDE_W + s * CONV_DILATION_W;
  const int reached = t + CONV_PAD_W - s * CONV_DILATION_W, q = down(reached, CONV_STRIDE_W);
  return q * CONV_STRIDE_W == reached ? q - kNear : -1;
}
__host__ __device__ constexpr bool is_read(int at) {
  for (int t = 0; t < kColumns; ++t)
    for (int s = 0; s < kTapsAtOnce; ++s)
      if (place(t, s) == at) return true;
  return false;
}
// The filter row by which row `u` of a step contributes to row m of the results `open` steps earlier (input gradients:
// later), or -1.
__host__ __device__ constexpr int filter_row(int u, int m, int open) {
  if (!kSlides && !kBack) return u / kCuts;
  const int reached = kBack ? m + kStrideH * (kSlides ? open : u) : u + kStrideH * open;
  return reached % kDilationH == 0 && reached / kDilationH < CONV_R ? reached / kDilationH : -1;
}

// A piece of channels is held as one word: the compiler would unpack a struct of halves right after the load, and so
// wait for every load. Pieces whose size is not that of a word are read element by element.
using Narrow = typename Word<sizeof(Storage)>::Type;
template <int lanes, bool is_word = (lanes & (lanes - 1)) == 0 && lanes * sizeof(Storage) <= 16>
struct Pieces {
  using Type = typename Word<sizeof(Storage) * lanes>::Type;
};
template <int lanes>
struct Pieces<lanes, false> {
  struct Type {
    Narrow lane[lanes];
  };
};
template <int lanes>
using PieceOf = typename Pieces<lanes>::Type;
using Piece = PieceOf<kSourceLanes>;

template <int lanes>
__device__ inline PieceOf<lanes> load_piece(const Storage* from, bool there) {
  PieceOf<lanes> piece = {};
  if constexpr (alignof(PieceOf<lanes>) == sizeof(piece)) {
    if (there) piece = __ldg(reinterpret_cast<const PieceOf<lanes>*>(from));
  } else {
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane)
      if (there) piece.lane[lane] = __ldg(reinterpret_cast<const Narrow*>(from) + lane);
  }
  return piece;
}
// Asynchronous copy (cp.async) of a piece of 4, 8 or 16 bytes to shared memory.
constexpr bool kSends = alignof(Piece) == sizeof(Piece) && sizeof(Piece) >= 4;
__device__ inline void send_piece(Piece* to, const Storage* from, bool there) {
  constexpr int bytes = sizeof(Piece);
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(address), "l"(from), "r"(there ? bytes : 0),
                 "n"(bytes)
                 : "memory");
}
template <int lanes>
__device__ inline void widen_piece(const PieceOf<lanes>& piece, float (&x)[lanes]) {
  if constexpr (sizeof(Storage) == 4 || alignof(PieceOf<lanes>) < 4) {
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) x[lane] = widen(reinterpret_cast<const Storage*>(&piece)[lane]);
  } else {
#pragma unroll
    for (int lane = 0; lane < lanes; lane += 2) {
      const u32 word = reinterpret_cast<const u32*>(&piece)[lane / 2];
      if constexpr (kSame<Storage, f16>) {
        asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
            : "=f"(x[lane]), "=f"(x[lane + 1])
            : "r"(word));
      } else {
        x[lane] = __uint_as_float(word << 16), x[lane + 1] = __uint_as_float(word & 0xffff0000u);
      }
    }
  }
}

// ---- A thread's part of the work ----
struct Item {
  int image, row_class, first, last, column;  // steps [first, last), first column of the result

  __device__ explicit Item(int item) {
    const int group = item % kGroups, strip = item / kGroups % kStrips, rest = item / kGroups / kStrips;
    image = rest / kClasses, row_class = rest % kClasses;
    column = group * kColumns;
    first = kFirstStep + strip * CONV_STEPS;
    last = first + CONV_STEPS < kFirstStep + kSteps ? first + CONV_STEPS : kFirstStep + kSteps;
  }
};

// ---- The source, row by row ----
struct Row {
  Piece piece[kWidth];
};

template <bool many>
struct MaskOf {
  using Type = u32;
};
template <>
struct MaskOf<true> {
  using Type = u64;
};

struct Source {
  using Mask = typename MaskOf<(kWidth > 32)>::Type;
  const Storage* image;
  Mask inside = 0;   // one bit per place, of the window's first piece
  int first, begin;  // the source row of step 0; the first place's column

  __device__ Source(const Storage* from, const Item& item, int channel, int band = 0)
      : first(kBack ? 0 : item.row_class + band * kDilationH - CONV_PAD_H) {
    static_assert(kWidth <= 64, "fewer columns, please");
    begin = (kBack ? item.column / CONV_STRIDE_W : item.column * CONV_STRIDE_W) + kNear;
    image =
        from + (static_cast<long long>(item.image) * kSourceH * kSourceW + begin) * kSourceC + source_channel(channel);
    inside = inside_from(begin);
  }
  __device__ static Mask inside_from(int column) {
    Mask mask = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) mask |= static_cast<Mask>(column + i >= 0 && column + i < kSourceW) << i;
    return mask;
  }
  // Row `u` of a step is read for this piece of the window.
  __device__ static int cut_of(int u) { return kCuts == 1 ? 0 : u % kCuts; }
  __device__ Mask inside_of(int cut) const { return kCuts == 1 ? inside : inside_from(begin + cut * kCutColumns); }
  __device__ int row_of(int step, int u) const {
    if (kBack) return kSlides ? step : step - u;
    return first + (kSlides ? (kStrideH * step + u) * kClasses : kStrideH * step + u / kCuts * kDilationH);
  }
  __device__ bool has(int row) const { return row >= 0 && row < kSourceH; }
  // Copies a row's pieces to shared memory asynchronously, CONV_THREADS apart; zeros outside the image.
  __device__ void send(int row, int cut, bool wanted, Piece* to) const {
    const bool there = wanted && has(row);
    const Mask here = inside_of(cut);
    const Storage* from = image + static_cast<long long>(row) * kSourceW * kSourceC + cut * kCutColumns * kSourceC;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      if (is_read(i))
        send_piece(to + i * CONV_THREADS, from + i * kSourceC, there && ((kCuts == 1 ? inside : here) >> i & 1));
  }
  // Loads a row's pieces into registers.
  __device__ void load(int row, int cut, bool wanted, Row& to) const {
    const bool there = wanted && has(row);
    const Mask here = inside_of(cut);
    const Storage* from = image + static_cast<long long>(row) * kSourceW * kSourceC + cut * kCutColumns * kSourceC;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      if (is_read(i))
        to.piece[i] = load_piece<kSourceLanes>(from + i * kSourceC, there && ((kCuts == 1 ? inside : here) >> i & 1));
  }
};

// Row `u` of a step: a row of the source, for a piece of the window. It advances by comparing, not by dividing:
// NVRTC 13.0 narrows the remainder of a division to a byte, which turns an address's offset of -2 rows into 254.
struct RowIndex {
  int step, u;
  __device__ RowIndex after(int rows) const {
    RowIndex index{step, u + rows};
#pragma unroll
    for (int i = 0; i < (kRowsIn - 1 + rows) / kRowsIn; ++i)
      if (index.u >= kRowsIn) ++index.step, index.u -= kRowsIn;
    return index;
  }
};

// The next rows, CONV_AHEAD of them in flight: a ring in shared memory that each thread fills and reads for itself.
struct RowsInSharedMemory {
  static constexpr int kSlots = CONV_AHEAD + 1;  // one slot is being read
  using Memory = Piece[kSlots][kWidth][CONV_THREADS];
  Memory& ring;
  int slot = 0;

  __device__ RowsInSharedMemory(Memory& memory, const Source& source, int begin, int end) : ring(memory) {
#pragma unroll
    for (int i = 0; i < CONV_AHEAD; ++i) send(source, RowIndex{begin, 0}.after(i), end, i);
  }
  // Returns row `u` of a step, and starts copying the row that is CONV_AHEAD after it.
  __device__ __forceinline__ Row take(const Source& source, int step, int u, int end) {
    asm volatile("cp.async.wait_group %0;" ::"n"(CONV_AHEAD - 1) : "memory");
    Row row;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) row.piece[i] = ring[slot][i][threadIdx.x];
    send(source, RowIndex{step, u}.after(CONV_AHEAD), end, slot == 0 ? kSlots - 1 : slot - 1);
    slot = slot + 1 == kSlots ? 0 : slot + 1;
    return row;
  }

 private:
  __device__ void send(const Source& source, RowIndex row, int end, int to) const {
    source.send(source.row_of(row.step, row.u), Source::cut_of(row.u), row.step < end, &ring[to][0][threadIdx.x]);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
};

// For pieces that cp.async cannot copy: one row in flight, in registers.
struct RowsInRegisters {
  struct Memory {};
  Row next;

  __device__ RowsInRegisters(Memory&, const Source& source, int begin, int end) { load(source, {begin, 0}, end); }
  __device__ __forceinline__ Row take(const Source& source, int step, int u, int end) {
    const Row row = next;
    load(source, RowIndex{step, u}.after(1), end);
    return row;
  }

 private:
  __device__ void load(const Source& source, RowIndex row, int end) {
    source.load(source.row_of(row.step, row.u), Source::cut_of(row.u), row.step < end, next);
  }
};

template <bool sends>
struct RowsOf {
  using Type = RowsInRegisters;
};
template <>
struct RowsOf<true> {
  using Type = RowsInSharedMemory;
};
using RowsAhead = typename RowsOf<kSends>::Type;

// A block's shared memory: the ring of rows, then the filters.
constexpr int kRingBytes = kSends ? (sizeof(RowsAhead::Memory) + 15) / 16 * 16 : 0;
extern __shared__ __align__(16) char shared_memory[];

// The formula applied to a source element before it is convolved: none. Programs with CONV_MAPPED define their own.
#ifdef CONV_MAPPED
constexpr bool kMaps = true;
#else
constexpr bool kMaps = false;
struct Input {
  __device__ Input(const Body&, int) {}
  __device__ float operator()(float x, int) const { return x; }
};
#endif

// Converts a piece to floats and applies the formula. `there`: the piece is inside the image. Padding stays zero.
__device__ inline void map_piece(const Piece& piece, const Input& input, bool there, float (&x)[kSourceLanes]) {
  widen_piece<kSourceLanes>(piece, x);
  if constexpr (kMaps)
#pragma unroll
    for (int lane = 0; lane < kSourceLanes; ++lane) x[lane] = there ? input(x[lane], lane) : 0;
}
