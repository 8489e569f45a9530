// Convolution of floats by multiply-adds on Hopper, in all three roles, as a matrix product: sum[row, column] = sum
// over
// depth of a[row, depth] * b[depth, column]. Body then takes the sums.
//
// Roles    forward (CONV_ROLE 0): rows = output pixels, columns = filters, depth = taps x channels;
//          input gradient (1): the same sum over dy with the filter flipped and w read transposed in place (this
//          kernel's C and K are then the layer's K and C); filter gradient (2): rows = filters, columns = taps x
//          channels, depth = pixels.
// Threads  one producer fills a ring of stages by TMA (im2col for images: padding, borders and tails read zero); eight
//          warps multiply, 8 x CONV_THREAD_N sums per thread, lanes 8 x 4. A multiply-add takes the only instruction
//          that a scheduler issues per clock, so every other instruction costs time: 4 depths of a thread's 8 x 16 sums
//          are 512 multiply-adds and 24 loads of 16 bytes.
// Reads    an operand is contiguous in shared memory along depth (roles 0 and 1: pixels, filters) or across it (filter
//          gradient; w transposed). Along: a 16-byte piece is 4 depths of a row; rows of 32 floats are swizzled by TMA,
//          shorter ones are an odd number of pieces long, so that 8 rows have no bank conflicts. Across: a piece is 4
//          neighbouring columns. Filters are in the order filter % 4, filter / 4, so that a thread has 4 neighbouring
//          columns either way, and Body accesses 16-byte pieces, 64 bytes in a row.
// Split    the host makes a schedule of tiles (conv_wgrad_schedule.h): whole tiles first; those that are left over are
//          cut along depth, their partial sums stored and added by conv_ffma_reduce in a fixed order. So a layer's last
//          wave is as full as the others, and no result depends on timing.
// Limits   as im2col TMA; K a multiple of 4, and C where it is not the forward pass; one group; input gradient only for
//          stride 1.
//
// Measured on an H200, TFLOP/s of the 66.9 at 1.98 GHz: forward 45 to 47, input gradient 41
// to 44, filter gradient 46 to 51. Shared memory is half busy, L2 and memory idle; the rest is lost to multiply-adds
// whose registers are in the same bank.
// What each idea gained: products in back-and-forth order, so that consecutive ones share an operand, and two chunks
// unrolled in filter gradients, 44 -> 50; 16 columns per thread instead of 8 7 %; four stages instead of two 1 to 4 %.
//
// Body, defined before this file: void load(int pixel, int channel, Loads&) const and void run(int pixel, int channel,
//   const Loads&, const float (&sum)[4]) const; in filter gradients pixel counts filters and taps. It holds items {tile
//   row | tile column << 16, first stage, stages, slot or -1}, of which block b runs [first_items[b], first_items[b +
//   1]); splits {tile row | tile column << 16, first slot, slots, 0}; parts float[slots][tile rows * columns].
// Compile-time, all required:
//   CONV_ROLE CONV_C CONV_K CONV_R CONV_S CONV_P CONV_Q CONV_PIXELS CONV_STRIDE_H/_W CONV_PAD_H/_W CONV_DILATION_H/_W
//   CONV_SLICE      channels of one box of images. Roles 0, 1: depth of a stage, 32 or an odd number of fours;
//                   filter gradient: any multiple of 4, at most 64
//   CONV_WARPS_N    1, 2, 4 or 8 warps side by side: tile rows = 512 / WARPS_N, columns = WARPS_N * 4 * THREAD_N
//   CONV_THREAD_N   8, 12 or 16: columns per thread
//   CONV_STAGES     ring depth
// Kernel conv_ffma(images, other, body), block 384, grid one block per worker of the schedule; maps of floats:
//   images  im2col {C, W, H, N}, corners {-pad, pad - (S-1) dilation}, element strides {1, stride, stride, 1}, box
//           {SLICE, tile rows}, swizzle of 128 bytes if SLICE is 32; filter gradient {SLICE, 32}, no swizzle
//   other   0: w as {C, K / 4, 4, R*S}, strides of {1, 4 R*S*C, R*S*C, C}, box {SLICE, columns / 4, 4, 1}, swizzle as
//           images; 1: the layer's own w as {K, R*S, C} in this kernel's letters, box {16, 1, SLICE}; 2: dy as {K,
//           pixels}, box {32, 32}
// Kernel conv_ffma_reduce(body), block 256, grid (splits, 2 * THREAD_N); not launched without splits.
#pragma once
#include "ptx.cuh"

constexpr bool kFilterGrad = CONV_ROLE == 2, kBAlong = CONV_ROLE == 0;
constexpr int kSlice = CONV_SLICE, kStages = CONV_STAGES, kWarpsN = CONV_WARPS_N, kThreadN = CONV_THREAD_N;
constexpr int kTileM = 512 / kWarpsN, kWarpN = 4 * kThreadN, kTileN = kWarpsN * kWarpN, kPieces = 2 * kThreadN;
constexpr int kDepth = kFilterGrad ? 32 : kSlice, kChunks = kDepth / 4;  // per stage; 4 depths are a chunk
constexpr bool kSwizzled = !kFilterGrad && kSlice == 32;
constexpr int kUnroll = kFilterGrad ? 2 : 1;  // chunks; with these, ptxas leaves the fewest register bank conflicts
constexpr int kPitch = kSlice * 4;            // bytes per row of a box
constexpr int kChannelSlices = (CONV_C + kSlice - 1) / kSlice, kSlices = CONV_R * CONV_S * kChannelSlices;
// Filter gradients: the columns of a tap, its last slice padded, and the slices that overlap a tile.
constexpr int kTapColumns = kChannelSlices * kSlice, kColumns = kFilterGrad ? kSlices * kSlice : CONV_K;
constexpr int kTileSlices = kTileN % kSlice == 0 ? kTileN / kSlice : (kSlice - 4 + kTileN + kSlice - 1) / kSlice;
constexpr int kRows = kFilterGrad ? CONV_K : CONV_PIXELS;
constexpr int kBytesA = kTileM * kDepth * 4, kBytesB = kFilterGrad ? kTileSlices * kPitch * 32 : kTileN * kDepth * 4;
constexpr int kStageBytes = kBytesA + kBytesB;
// Stages are aligned to the period of the swizzle.
constexpr int kStagePitch = (kStageBytes + 1023) / 1024 * 1024;
static_assert(kThreadN % 4 == 0 && kSlice % 4 == 0 && (kFilterGrad || kSwizzled || kSlice % 8 == 4));

struct Item {
  int m, n, first, count, slot;
  NIXIE_DEVICE explicit Item(int4 v) : m(v.x & 0xffff), n(v.x >> 16), first(v.y), count(v.z), slot(v.w) {}
};

struct Barriers {
  u32 full, empty;
  NIXIE_DEVICE u32 full_at(int stage) const { return full + 8 * stage; }
  NIXIE_DEVICE u32 empty_at(int stage) const { return empty + 8 * stage; }
};

// ---- Producer ----
struct Maps {
  const TensorMap *images, *other;
};

struct Place {  // an output pixel, as the corner of its window
  int image, h, w;
  NIXIE_DEVICE explicit Place(int pixel) {
    image = pixel / (CONV_P * CONV_Q);
    const int rest = pixel - image * (CONV_P * CONV_Q), p = rest / CONV_Q;
    h = p * CONV_STRIDE_H - CONV_PAD_H, w = (rest - p * CONV_Q) * CONV_STRIDE_W - CONV_PAD_W;
  }
};

struct Tap {  // a slice of channels and its window position; slices past the last read zeros
  int c, s, r;
  NIXIE_DEVICE explicit Tap(int slice) {
    const int tap = slice / kChannelSlices;
    c = slice - tap * kChannelSlices, r = tap / CONV_S, s = tap - r * CONV_S;
  }
  NIXIE_DEVICE void next() {
    if (++c < kChannelSlices || (r == CONV_R - 1 && s == CONV_S - 1)) return;
    c = 0;
    if (++s == CONV_S) s = 0, r++;
  }
};

// Roles 0 and 1: loads a stage of a tile, one slice of channels of one tap.
NIXIE_DEVICE void load_stage(const Maps& maps, u32 a, u32 bar, int slice, int n0, const Place& at) {
  const u32 b = a + kBytesA;
  const Tap tap(slice);
  const int c = tap.c * kSlice, place = tap.r * CONV_S + tap.s;
  copy_im2col(a, maps.images, bar, c, at.w, at.h, at.image, tap.s * CONV_DILATION_W, tap.r * CONV_DILATION_H);
  if (kBAlong) {
    copy_box_4d(b, maps.other, bar, c, n0 / 4, 0, place);
  } else {
#pragma unroll 4  // to save registers
    for (int i = 0; i < kTileN / 16; i++)
      copy_box_3d(b + i * 64 * kDepth, maps.other, bar, n0 + i * 16, CONV_R * CONV_S - 1 - place, c);
  }
}

NIXIE_DEVICE void produce(const Maps& maps, u32 shared, Barriers bars, const int4* items, int count) {
  Ring<kStages> ring;
  for (int i = 0; i < count; i++) {
    const Item item(items[i]);
    const Place at(kFilterGrad ? 0 : item.m * kTileM);
    const Tap first(kFilterGrad ? item.n * kTileN / kSlice : 0);
    for (int k = 0; k < item.count; k++, ring.next()) {
      const u32 a = shared + ring.stage * kStagePitch, bar = bars.full_at(ring.stage);
      barrier_wait(bars.empty_at(ring.stage), ring.parity ^ 1);
      barrier_expect(bar, kStageBytes);
      if (!kFilterGrad) {
        load_stage(maps, a, bar, item.first + k, item.n * kTileN, at);
        continue;
      }
      const int pixel = (item.first + k) * 32;
      const Place from(pixel);
#pragma unroll 4
      for (int j = 0; j < kTileM / 32; j++) copy_box_2d(a + j * 4096, maps.other, bar, item.m * kTileM + j * 32, pixel);
      Tap at_slice = first;
#pragma unroll 1  // to save registers
      for (int j = 0; j < kTileSlices; j++, at_slice.next())
        copy_im2col(a + kBytesA + j * 32 * kPitch, maps.images, bar, at_slice.c * kSlice, from.w, from.h, from.image,
                    at_slice.s * CONV_DILATION_W, at_slice.r * CONV_DILATION_H);
    }
  }
}

// ---- Multiplication ----
// A thread's position: its warp's in the tile, and its lane's among 8 x 4.
NIXIE_DEVICE int warp_m(int thread) { return thread / 32 / kWarpsN; }
NIXIE_DEVICE int warp_n(int thread) { return thread / 32 % kWarpsN; }
NIXIE_DEVICE int lane_m(int thread) { return thread % 32 / 4; }
NIXIE_DEVICE int lane_n(int thread) { return thread % 4; }
// The tile's row of sum j, and the column of the first of a piece of four sums.
NIXIE_DEVICE int row_of(int j, int thread) {
  return warp_m(thread) * 64 + (kFilterGrad ? j / 4 * 32 + lane_m(thread) * 4 + j % 4 : j * 8 + lane_m(thread));
}
NIXIE_DEVICE int column_of(int piece, int thread) { return warp_n(thread) * kWarpN + piece * 16 + lane_n(thread) * 4; }

// Loads a thread's operands from shared memory: those of chunk `q` of the stage at address `stage`.
struct Reader {
  u32 a, b;                  // offsets of the thread's first elements in a stage
  u32 pieces[kThreadN / 4];  // filter gradients: the offset of each piece of b, as slices may straddle tiles
  u32 swizzle_a, swizzle_b;

  NIXIE_DEVICE explicit Reader(int thread) {
    const int m = lane_m(thread), n = lane_n(thread);
    a = kFilterGrad ? warp_m(thread) * 8192 + m * 16 : (warp_m(thread) * 64 + m) * kPitch;
    b = kBytesA + (kBAlong ? (warp_n(thread) * kThreadN + n) * kPitch : 0);
    if (CONV_ROLE == 1) b += column_of(0, thread) / 16 * 64 * kDepth + n * 16;
    swizzle_a = m * 16, swizzle_b = ((warp_n(thread) * kThreadN + n) % 8) * 16;
    start(thread, 0);
  }
  // Filter gradients: sets the pieces' offsets for an item whose first column is n0.
  NIXIE_DEVICE void start(int thread, int n0) {
#pragma unroll
    for (int p = 0; kFilterGrad && p < kThreadN / 4; p++) {
      const int column = n0 % kSlice + column_of(p, thread);
      pieces[p] = kBytesA + column / kSlice * 32 * kPitch + column % kSlice * 4;
    }
  }
  // The thread's rows at 4 depths: a piece holds 4 depths of row j, or 4 rows (half of the thread's) at one depth.
  NIXIE_DEVICE float4 a_along(u32 stage, int q, int j) const {
    return load_shared(stage + a + j * 8 * kPitch + (kSwizzled ? (q * 16) ^ swizzle_a : q * 16));
  }
  NIXIE_DEVICE float4 a_across(u32 stage, int q, int depth, int half) const {
    return load_shared(stage + a + q * 512 + depth * 128 + half * 4096);
  }
  // Piece t of b: 4 depths of column t, or four columns at depth t / (THREAD_N / 4).
  NIXIE_DEVICE float4 b_piece(u32 stage, int q, int t) const {
    if (kBAlong) {
      const int row = t % 4 * (kTileN / 4) + t / 4 * 4;  // relative to the thread's first; it changes the swizzle
      const u32 piece = kSwizzled ? (q * 16) ^ swizzle_b ^ (row % 8 * 16) : q * 16;
      return load_shared(stage + b + row * kPitch + piece);
    }
    const int depth = t / (kThreadN / 4), p = t % (kThreadN / 4);
    if (kFilterGrad) return load_shared(stage + pieces[p] + (q * 4 + depth) * kPitch);
    return load_shared(stage + b + p * 64 * kDepth + (q * 4 + depth) * 64);
  }
};

using Sums = float[8][kThreadN];

struct Operands {
  float a[8][4];  // row, depth
  float4 b[4];    // pieces in flight
};

NIXIE_DEVICE void set_a(Operands& v, const Reader& read, u32 stage, int q, int j) {
  const float4 four = read.a_along(stage, q, j);
  v.a[j][0] = four.x, v.a[j][1] = four.y, v.a[j][2] = four.z, v.a[j][3] = four.w;
}
NIXIE_DEVICE void set_a_across(Operands& v, const Reader& read, u32 stage, int q, int depth, int half) {
  const float4 four = read.a_across(stage, q, depth, half);
  v.a[half * 4][depth] = four.x, v.a[half * 4 + 1][depth] = four.y;
  v.a[half * 4 + 2][depth] = four.z, v.a[half * 4 + 3][depth] = four.w;
}

// Loads the first chunk's operands.
NIXIE_DEVICE void fetch(Operands& v, const Reader& read, u32 stage) {
#pragma unroll
  for (int t = 0; t < 3; t++) v.b[t] = read.b_piece(stage, 0, t);
#pragma unroll
  for (int j = 0; j < 8; j++) {
    if (kFilterGrad)
      set_a_across(v, read, stage, 0, j / 2, j % 2);
    else
      set_a(v, read, stage, 0, j);
  }
}

// Multiplies one chunk, whose operands are in flight, and loads those of the next: pieces of b three ahead, and parts
// of
// a right after their last use, so that a needs no second set of registers.
NIXIE_DEVICE void multiply_chunk(Sums& sum, Operands& v, const Reader& read, u32 stage, int q, u32 next_stage,
                                 int next_q) {
#pragma unroll
  for (int t = 0; t < kThreadN; t++) {
    v.b[(t + 3) % 4] =
        t + 3 < kThreadN ? read.b_piece(stage, q, t + 3) : read.b_piece(next_stage, next_q, t + 3 - kThreadN);
    const float4 b = v.b[t % 4];
    const float four[4] = {b.x, b.y, b.z, b.w};
    const int depth = t / (kThreadN / 4), p = kBAlong ? t / 4 : t % (kThreadN / 4);
#pragma unroll
    for (int x = 0; x < 32; x++) {
      const int e = x / 8, turn = e % 2 ? 7 - x % 8 : x % 8, j = turn / 2 + turn % 2 * 4;
      float& to = sum[j][kBAlong ? t : p * 4 + e];
      to = __fmaf_rn(v.a[j][kBAlong ? e : depth], four[e], to);
      if (!kFilterGrad && t == kThreadN - 1 && e == 3) set_a(v, read, next_stage, next_q, j);
    }
    if (kFilterGrad && p == kThreadN / 4 - 1) {
      set_a_across(v, read, next_stage, next_q, depth, 0);
      set_a_across(v, read, next_stage, next_q, depth, 1);
    }
  }
}

// Computes the sums of one item, over all its stages.
NIXIE_DEVICE void accumulate(Sums& sum, Ring<kStages>& ring, const Reader& read, u32 shared, Barriers bars, int count) {
#pragma unroll
  for (int i = 0; i < 8 * kThreadN; i++) sum[i / kThreadN][i % kThreadN] = 0;
  barrier_wait(bars.full_at(ring.stage), ring.parity);
  u32 stage = shared + ring.stage * kStagePitch;
  Operands v;
  fetch(v, read, stage);
  while (true) {
#pragma unroll kUnroll
    for (int q = 0; q < kChunks - 1; q++) multiply_chunk(sum, v, read, stage, q, stage, q + 1);
    // The last chunk of a stage loads from the next stage; in the item's last stage it loads from the same one, unused.
    const u32 done = bars.empty_at(ring.stage);
    ring.next();
    u32 next = stage;
    if (--count > 0) {
      barrier_wait(bars.full_at(ring.stage), ring.parity);
      next = shared + ring.stage * kStagePitch;
    }
    multiply_chunk(sum, v, read, stage, kChunks - 1, next, 0);
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(done);
    if (count == 0) break;
    stage = next;
  }
}

// ---- Epilogue ----
// Calls act(position, channel) for a piece of a tile, if it is inside the result.
template <class Act>
NIXIE_DEVICE void at_piece(const Item& item, int piece, int thread, Act act) {
  const int row = item.m * kTileM + row_of(piece / (kThreadN / 4), thread);
  const int column = item.n * kTileN + column_of(piece % (kThreadN / 4), thread);
  if (row >= kRows || column >= kColumns) return;
  if (!kFilterGrad) return act(row, column);
  const int tap = column / kTapColumns, c = column - tap * kTapColumns;
  if (c < CONV_C) act(row * (CONV_R * CONV_S) + tap, c);
}

// Runs Body over neighbouring pieces from `first` on; all their loads are issued before the first is used.
template <int kCount>
NIXIE_DEVICE void run_body(const Body& body, const float (&v)[kCount][4], const Item& item, int first, int thread) {
  Body::Loads loads[kCount];
#pragma unroll
  for (int i = 0; i < kCount; i++)
    at_piece(item, first + i, thread, [&](int position, int c) { body.load(position, c, loads[i]); });
#pragma unroll
  for (int i = 0; i < kCount; i++)
    at_piece(item, first + i, thread, [&](int position, int c) { body.run(position, c, loads[i], v[i]); });
}

// Stores a part, or runs Body over a whole tile, with as many pieces at a time as registers allow beside the sums.
NIXIE_DEVICE void finish(const Body& body, const Sums& sum, const Item& item, int thread) {
  constexpr int kAtOnce = sizeof(Body::Loads) <= 16 ? kThreadN / 4 : 1;
  float4* parts = reinterpret_cast<float4*>(body.parts) + static_cast<u64>(item.slot) * kPieces * 256 + thread;
#pragma unroll
  for (int piece = 0; piece < kPieces; piece += kAtOnce) {
    float v[kAtOnce][4];
#pragma unroll
    for (int i = 0; i < kAtOnce * 4; i++) v[i / 4][i % 4] = sum[piece / (kThreadN / 4)][piece % (kThreadN / 4) * 4 + i];
    if (item.slot < 0) {
      run_body(body, v, item, piece, thread);
    } else {
#pragma unroll
      for (int i = 0; i < kAtOnce; i++) parts[(piece + i) * 256] = make_float4(v[i][0], v[i][1], v[i][2], v[i][3]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    conv_ffma(const __grid_constant__ TensorMap images, const __grid_constant__ TensorMap other,
              const __grid_constant__ Body body) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full[kStages], empty[kStages];
  const u32 shared = (shared_address(dynamic) + 1023) & ~1023u;
  const Barriers bars{shared_address(full), shared_address(empty)};
  const int first = body.first_items[blockIdx.x], count = body.first_items[blockIdx.x + 1] - first;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(bars.full_at(i), 1);
      barrier_init(bars.empty_at(i), 8);
    }
    barrier_init_done();
    prefetch_map(&images), prefetch_map(&other);
  }
  __syncthreads();
  if (__shfl_sync(~0u, threadIdx.x / 128, 0) == 0) {
    registers_down<40>();
    if (threadIdx.x == 0) produce({&images, &other}, shared, bars, body.items + first, count);
  } else {
    registers_up<232>();
    const int thread = threadIdx.x - 128;
    Reader read(thread);
    Ring<kStages> ring;
    Sums sum;
    for (int i = 0; i < count; i++) {
      const Item item(body.items[first + i]);
      read.start(thread, item.n * kTileN);
      accumulate(sum, ring, read, shared, bars, item.count);
      finish(body, sum, item, thread);
    }
  }
}

// Adds the parts of a tile and runs Body; each block does one piece of every thread.
extern "C" __global__ void __launch_bounds__(256) conv_ffma_reduce(const __grid_constant__ Body body) {
  const Item tile(body.splits[blockIdx.x]);
  const int piece = blockIdx.y, slots = tile.count;
  const float4* from = reinterpret_cast<const float4*>(body.parts) +
                       (static_cast<u64>(tile.first) * kPieces + piece) * 256 + threadIdx.x;
  float4 sum = from[0];
#pragma unroll 4
  for (int i = 1; i < slots; i++) {
    const float4 v = from[static_cast<u64>(i) * kPieces * 256];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  const float v[1][4] = {{sum.x, sum.y, sum.z, sum.w}};
  run_body(body, v, tile, piece, threadIdx.x);
}
