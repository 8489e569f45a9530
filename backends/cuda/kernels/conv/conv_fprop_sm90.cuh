// Convolution on Hopper's tensor cores, forward pass and input gradient: y[pixel, k] = sum over taps and channels of
// x[pixel + tap, c] * w[k, tap, c]. Body then takes the sums.
//
// Layout   x channels-last, w [K][R][S][C], 16-bit storage, fp32 sums. Implicit GEMM: M = output pixels,
//          N = filters, K = taps x channels in slices of CONV_SLICE channels of a tap. A pipeline stage has at most 64
//          terms: the number of slices that leaves the fewest zeros in the last stage.
// Roles    persistent blocks; one producer thread fills a ring of CONV_STAGES stages by TMA (im2col for x: padding,
//          image borders and the last partial tile read zero); CONV_CONSUMERS warpgroups multiply, each 64 * CONV_MMA_M
//          rows, and each runs the epilogue of its own, which overlaps with another's products. With CONV_IN_TURN = 1
//          consumers do not share tiles but take them in turn, so that one's epilogue overlaps with the other's
//          products: for short sums.
// Split    if there are few tiles with many terms, CONV_SPLITS blocks share each tile (split_sums.cuh).
// Filters  if all filters of a column of tiles fit beside a ring of images (CONV_RESIDENT = 1), a block stays in one
//          column and loads them once. Otherwise every tile loads them again, and if they are small all blocks read the
//          same few lines of L2: 24 filters of 144 channels took three times as long as the images.
// Pairs    with CONV_PAIRS = 1 two blocks of a cluster take two neighbouring tiles of a column at a time. Each loads
//          half of their filters, for both: an SM gets so many lines from L2 in a clock, and images whose pixels do
//          not begin at lines take two for each row.
// Epilogue the generated Body, 8 neighbouring channels of a pixel at a time: loads and stores of 16 bytes. If results
//          are not aligned to 16 bytes (odd numbers of filters), one at a time: a warp stores 32 neighbouring channels.
// Gradient the input gradient is the same sum over dy with the filter flipped and w read transposed in place
//          (CONV_TRANSPOSED_W = 1: this kernel's C and K are then the layer's K and C): no copy of w is made. The left
//          matrix of a product may be transposed, too (CONV_TRANSPOSED_X = 1): x is then [C][pixels].
// Groups   channels and filters of all groups are side by side, CONV_C and CONV_K of each; a tile belongs to one group.
//          A box may extend into the next group's channels, for which w reads zeros.
// Limits   strides, padding and dilation that im2col TMA allows (corners in [-128, 127], tap offsets < 256); C and K
//          multiples of 8, forward with LANES 1 any K; the input gradient only for stride 1, in groups only if C is a
//          multiple of 64.
// Products with CONV_PRODUCTS = 3 each f32 operand is two 16-bit planes: high, the rounded value, and low, 2^11 times
//          the rounding error: sum = high * high + 2^-11 * (high * low + low * high). Tensor cores truncate sums, so
//          the first term starts from zero in every stage and is added in f32 with rounding; the other two are small
//          enough to accumulate over all stages.
// 8 bits   with NIXIE_BYTES_A and NIXIE_BYTES_B (the types) x and w hold pairs of 8-bit numbers where this text says
//          16-bit ones, so a stage has 128 terms. With NIXIE_INTEGERS = 1 they are integers, whose sums are i32. Sums
//          of 8-bit floats have some 14 bits in the tensor cores: those of a stage (CONV_GROUP = 64 pairs) start from
//          zero and are added in f32 with rounding, of 64 rows at a time. While one warpgroup adds, another's products
//          run.
// Rounded  sums (CONV_ROUNDS = 1): those of CONV_GROUP terms are merged(sum, group), a function defined before this
//          file that rounds sum + group; and those of parts of CONV_PART stages likewise, in order. With CONV_LATE = 1
//          a sum is rounded while the next group's products run. The window's taps come in w's order.
//
// What each idea gained: three consumers of 64 x 128 have better tile counts
// (AlexNet conv4 75 -> 57 us); small N (64, 96) is bound by reading x from L2, at 0.55 of the matrix rate.
//
// Body     struct Body { struct Fixed; void load(int channel, Fixed&) const; struct Loads; void load(int pixel, int
//          channel, Loads&) const; void run(int pixel, int channel, const Fixed&, const Loads&, const float
//          (&sum)[CONV_LANES]) const; }, defined before this file. Fixed is what depends on the channel alone.
// Compile-time, all required:
//   CONV_C CONV_K CONV_R CONV_S     channels, filters, of one group; window
//   CONV_GROUPS
//   CONV_P CONV_Q CONV_PIXELS       output height and width; images * P * Q
//   CONV_STRIDE_H/_W CONV_PAD_H/_W CONV_DILATION_H/_W
//   CONV_SLICE                      channels of one box: 64, or 32 or 16 if C is not a multiple of 64
//   CONV_CONSUMERS CONV_MMA_M       tile rows = 64 * CONSUMERS * MMA_M, in turn 64 * MMA_M; sums per thread = MMA_M *
//                                   TILE_N / 2, at most 128 with one or two consumers, 64 with three
//   CONV_TILE_N                     a multiple of 8 up to 256; in pairs, and of integers, of 16
//   CONV_IN_TURN                    0 or 1; 1: two consumers, PRODUCTS and SPLITS are 1
//   CONV_STAGES                     ring depth
//   CONV_RESIDENT                   0 or 1; 1: PRODUCTS is 1, and the grid is a multiple of the tiles across K
//   CONV_SPLITS                     blocks that share the terms of a tile; if several, Body holds u32* arrived, a
//                                   zero for each tile and consumer, and float* split_parts [tiles][CONSUMERS][SPLITS]
//                                   [MMA_M * TILE_N / 2][128]; RESIDENT is 0, PRODUCTS 1
//   CONV_PAIRS                      0 or 1; 1: RESIDENT is 0, SPLITS is 1, and the grid is even
//   CONV_LANES                      8 or 1: channels that Body takes at once
//   CONV_TRANSPOSED_W NIXIE_BF16    0 or 1
//   CONV_TRANSPOSED_X               0 or 1; 1: one tap, images of one pixel, one group, SLICE 64, PRODUCTS 1
//   CONV_TOGETHER                   rows of tiles of which blocks take a column before the next column's; several: not
//                                   RESIDENT
//   CONV_GROUP                      terms whose sums leave the tensor cores, or 0; not 0: two consumers or one, that
//                                   share tiles; PRODUCTS is 1; below 64: SLICE is 64
//   CONV_ROUNDS                     0 or 1; 1: SPLITS is 1, SLICE 64; C is a multiple of it, or there is one tap
//   CONV_LATE                       0 or 1; 1: ROUNDS is 1, and rounding takes few registers
//   CONV_PART                       stages of a part, or 0: there is one
//   CONV_PRODUCTS                   1 or 3; 3: a third as many sums per thread
//   PARTS PARTS_COLUMNS PARTS_OF_CHANNELS   as in parts.cuh; of channels: the workers are a multiple of the tiles
//                                   across K
//   CONV_AHEAD                      with PARTS_OF_CHANNELS: rows of a lane whose loads are in flight, 1 to 4
//   NIXIE_PRODUCTS                  as in ptx.cuh, of TILE_N columns
// Kernel conv_fprop(x_map, w_map, [x_low_map, w_low_map,] body):
//   x_map     im2col, 16-bit {C, W, H, N}, corners {-pad, pad - (S-1) dilation}, box {SLICE, tile rows}, element
//             strides {1, stride, stride, 1}, swizzle of SLICE * 2 bytes; transposed: tiled {pixels, C}, box {64, 64}
//   w_map     tiled {C, R*S, K}, box {SLICE, 1, TILE_N}, in pairs of half as many rows, the same swizzle; transposed:
//             tiled over the layer's own w, which is {K, R*S, C} in this kernel's letters, box {64, 1, 64}, swizzle
//             128 bytes, SLICE = 64
//   grid      at most one block per SM; block (CONSUMERS + 1) * 128; dynamic shared memory 1024 + STAGES * planes *
//             (tile rows + TILE_N, rounded up to 64 if transposed) * bytes per row + CONSUMERS * 16384; resident
//             filters are outside the ring and take their share of a stage's bytes for each stage of a tile
#pragma once
#include "parts.cuh"
#include "split_sums.cuh"

constexpr int kSlice = CONV_SLICE, kSliceBytes = kSlice * 2;
constexpr int kChannelSlices = (CONV_C + kSlice - 1) / kSlice, kSlices = CONV_R * CONV_S * kChannelSlices;
constexpr int kBlocks = (kSlices * kSlice + 63) / 64;  // stages per tile
constexpr int kSlicesPerStage = (kSlices + kBlocks - 1) / kBlocks, kRowBytes = kSlicesPerStage * kSliceBytes;
constexpr int kStages = CONV_STAGES, kConsumers = CONV_CONSUMERS, kMmaM = CONV_MMA_M, kTileN = CONV_TILE_N;
constexpr int kSharing = CONV_IN_TURN ? 1 : kConsumers, kTurns = kConsumers / kSharing;
constexpr int kTileM = 64 * kSharing * kMmaM, kTilesN = (CONV_K + kTileN - 1) / kTileN;
constexpr int kTilesAcross = CONV_GROUPS * kTilesN;
constexpr int kRowsB = CONV_TRANSPOSED_W ? (kTileN + 63) / 64 * 64 : kTileN;
constexpr int kPlanes = CONV_PRODUCTS == 3 ? 2 : 1;
constexpr int kBytesA = kTileM * kRowBytes, kBytesB = kRowsB * kRowBytes;
constexpr int kPlaneBytes = CONV_RESIDENT ? kBytesA : kBytesA + kBytesB, kStageBytes = kPlanes * kPlaneBytes;
constexpr int kRingBytes = kStages * kStageBytes, kResidentBytes = CONV_RESIDENT ? kBlocks * kBytesB : 0;
constexpr int kChunksN = (kTileN + 63) / 64, kRowM = kTileM << CONV_PAIRS,
              kTiles = (CONV_PIXELS + kRowM - 1) / kRowM * kTilesAcross;  // or pairs of them
constexpr Swizzle kSwizzle = kSlice == 64 ? Swizzle::b128 : kSlice == 32 ? Swizzle::b64 : Swizzle::b32;
static_assert(!CONV_TRANSPOSED_W || kSlice == 64, "a transposed filter is read in boxes of 64 x 64");
static_assert(!CONV_TRANSPOSED_X || (kSlice == 64 && CONV_R * CONV_S * CONV_P * CONV_Q == 1 && CONV_GROUPS == 1));
static_assert(CONV_GROUPS == 1 || !CONV_TRANSPOSED_W || CONV_C % 64 == 0, "a box has filters of one group");
static_assert(!CONV_PAIRS || (CONV_SPLITS == 1 && !CONV_RESIDENT));

// A block, or a pair of them, that takes tiles, or pairs.
struct Worker {
  int number = blockIdx.x >> CONV_PAIRS, count = gridDim.x >> CONV_PAIRS;
  int rank = CONV_PAIRS ? static_cast<int>(rank_in_cluster()) : 0;  // of the block in its pair
  NIXIE_DEVICE int first_pixel(int tile) const { return tile / kTilesAcross * kRowM + rank * kTileM; }
};

// The order in which blocks take tiles. Sums of 8-bit products are so fast that neither operand may come from memory
// for each row of tiles: several rows go together, so that a wave of blocks reads few lines of both.
NIXIE_DEVICE int in_order(int tile) {
  constexpr int kDown = kTiles / kTilesAcross;
  if (CONV_TOGETHER == 1) return tile;
  const int first = tile / (CONV_TOGETHER * kTilesAcross) * CONV_TOGETHER, rows = min(CONV_TOGETHER, kDown - first),
            within = tile - first * kTilesAcross;
  return (first + within % rows) * kTilesAcross + within / rows;
}

// A block's unit of work: stages [begin, end) of a tile.
struct Item {
  static constexpr int kShare = (kBlocks + CONV_SPLITS - 1) / CONV_SPLITS;
  int tile, split, begin, end;
  NIXIE_DEVICE explicit Item(int item)
      : tile(in_order(item / CONV_SPLITS)),
        split(item % CONV_SPLITS),
        begin(split * kShare),
        end(CONV_SPLITS == 1 ? kBlocks : min(begin + kShare, kBlocks)) {}
};
constexpr int kItems = kTiles * CONV_SPLITS;
static_assert(CONV_SPLITS == 1 || (!CONV_RESIDENT && CONV_PRODUCTS == 1 && (CONV_SPLITS - 1) * Item::kShare < kBlocks));
static_assert(!CONV_IN_TURN || (kConsumers == 2 && CONV_SPLITS == 1 && CONV_PRODUCTS == 1));
static_assert(CONV_TOGETHER == 1 || !CONV_RESIDENT);
static_assert(!CONV_GROUP || (!CONV_IN_TURN && CONV_PRODUCTS == 1));
static_assert(!CONV_ROUNDS || (CONV_SPLITS == 1 && kSlice == 64 && kSlicesPerStage == 1));

// Consumers that take tiles in turn: the products of a tile may begin once those of the block's previous tile have.
struct Turn {
  int number, last;  // of the block's tiles
  NIXIE_DEVICE void wait() const {
    if (kTurns > 1 && number > 0) asm volatile("bar.sync %0, 256;" ::"r"(1 + number % 2) : "memory");
  }
  NIXIE_DEVICE void pass() const {
    if (kTurns > 1 && number < last) asm volatile("bar.arrive %0, 256;" ::"r"(2 - number % 2) : "memory");
  }
};

// A tile's column: its group, and the first of its filters there.
struct Column {
  int group, n0;
  NIXIE_DEVICE explicit Column(int tile) : group(tile % kTilesAcross / kTilesN), n0(tile % kTilesN * kTileN) {}
};

struct Barriers {
  u32 full, empty, filters;
  NIXIE_DEVICE u32 full_at(int stage) const { return full + 8 * stage; }
  NIXIE_DEVICE u32 empty_at(int stage) const { return empty + 8 * stage; }
  // Releases a stage, which both blocks of a pair fill.
  NIXIE_DEVICE void release(int stage) const {
    if (CONV_PAIRS) barrier_release_at_block(in_block(empty_at(stage), rank_in_cluster() ^ 1));
    barrier_arrive(empty_at(stage));
  }
};

// Channels [c, c + kSlice) of one tap, for all rows and columns of a tile: `tap` of the images, `tap_of_w` of the
// filter, which input gradients flip. Slices past the last one, which pad the last stage, are outside both maps and
// read zeros.
struct Slice {
  int index, tap, tap_of_w, c;
  NIXIE_DEVICE explicit Slice(int index) : index(index) {
    const int number = index / kChannelSlices, opposite = CONV_R * CONV_S - 1 - number;
    tap = CONV_TRANSPOSED_W && CONV_ROUNDS ? opposite : number;
    tap_of_w = CONV_TRANSPOSED_W && !CONV_ROUNDS ? opposite : number;
    c = (index - number * kChannelSlices) * kSlice;
  }
};

NIXIE_DEVICE void load_images(const TensorMap* x, u32 a, u32 bar, Slice slice, Column column, int image, int h, int v) {
  const int r = slice.tap / CONV_S, s = slice.tap - r * CONV_S, first = CONV_GROUPS == 1 ? 0 : column.group * CONV_C;
  const bool past = kSlices % kSlicesPerStage != 0 && slice.index >= kSlices;
  if (CONV_TRANSPOSED_X) {
#pragma unroll
    for (int i = 0; i < kTileM / 64; i++) copy_box_2d(a + i * 8192, x, bar, image + 64 * i, slice.c);
    return;
  }
  copy_im2col(a, x, bar, past ? CONV_GROUPS * kChannelSlices * kSlice : first + slice.c, v, h, image,
              s * CONV_DILATION_W, r * CONV_DILATION_H);
}

NIXIE_DEVICE void load_box(u32 to, const TensorMap* w, u32 bar, int x, int y, int z) {
  if (CONV_PAIRS)
    copy_box_3d_to(0b11, to, w, bar, x, y, z);
  else
    copy_box_3d(to, w, bar, x, y, z);
}

NIXIE_DEVICE void load_filters(const TensorMap* w, u32 b, u32 bar, Slice slice, Column column, int rank) {
  const int n0 = column.n0, first = CONV_GROUPS == 1 ? 0 : column.group * CONV_C;
  if (CONV_TRANSPOSED_W) {
    for (int i = rank; i < kRowsB / 64; i += 1 << CONV_PAIRS)
      load_box(b + i * 8192, w, bar, n0 + 64 * i, slice.tap_of_w, first + slice.c);
  } else {
    const int row = rank * kTileN / 2;
    load_box(b + row * kSliceBytes, w, bar, slice.c, slice.tap_of_w,
             (CONV_GROUPS == 1 ? n0 : column.group * CONV_K + n0) + row);
  }
}

struct Maps {
  const TensorMap *x[kPlanes], *w[kPlanes];
};

NIXIE_DEVICE void produce(const Maps& maps, u32 shared, Barriers bars) {
  const Worker worker;
  Ring<kStages> ring;
  if (CONV_RESIDENT) {
    barrier_expect(bars.filters, kResidentBytes);
    for (int i = 0; i < kBlocks * kSlicesPerStage; i++)
      load_filters(maps.w[0], shared + kRingBytes + i * kRowsB * kSliceBytes, bars.filters, Slice(i),
                   Column(worker.number), 0);
  }
  for (int i = worker.number; i < kItems; i += worker.count) {
    const Item item(i);
    const int tile = item.tile;
    const Column column(tile);
    const int pixel = worker.first_pixel(tile);
    int image = pixel / (CONV_P * CONV_Q), rest = pixel - image * (CONV_P * CONV_Q), p = rest / CONV_Q,
        q = rest - p * CONV_Q;
    int h = p * CONV_STRIDE_H - CONV_PAD_H, v = q * CONV_STRIDE_W - CONV_PAD_W;
    for (int block = item.begin; block < item.end; block++, ring.next()) {
      u32 a = shared + ring.stage * kStageBytes, b = a + kBytesA, bar = bars.full_at(ring.stage);
      barrier_wait(bars.empty_at(ring.stage), ring.parity ^ 1);
      barrier_expect(bar, kStageBytes);
#pragma unroll
      for (int plane = 0; plane < kPlanes; plane++, a += kPlaneBytes, b += kPlaneBytes)
        for (int i = 0; i < kSlicesPerStage; i++) {
          const Slice slice(block * kSlicesPerStage + i);
          load_images(maps.x[plane], a + i * kTileM * kSliceBytes, bar, slice, column, image, h, v);
          if (!CONV_RESIDENT)
            load_filters(maps.w[plane], b + i * kRowsB * kSliceBytes, bar, slice, column, worker.rank);
        }
    }
  }
}

using Sums = TensorSum[kMmaM][kTileN / 2];

NIXIE_DEVICE void pin_all(Sums& sum) {
#pragma unroll
  for (int m = 0; m < kMmaM; m++) pin(sum[m]);
}

// Adds products of two planes of a stage, of all its terms or of 16 * `count` from 16 * `first` on, to the sums of rows
// * 64 rows of one warpgroup, which start at `a`. add = false starts from zero.
template <int rows, int first = 0, int count = kSlicesPerStage* kSlice / 16>
NIXIE_DEVICE void multiply_stage(TensorSum (&sum)[rows][kTileN / 2], u32 a, u32 b, bool add) {
#pragma unroll
  for (int i = 0; i < kSlicesPerStage; i++) {
#pragma unroll
    for (int k = 0; k < kSlice / 16; k++) {
      if (i * kSlice / 16 + k < first || i * kSlice / 16 + k >= first + count) continue;
      u64 right = CONV_TRANSPOSED_W ? operand<Swizzle::b128>(b + k * 2048, 8192, 1024)
                                    : operand<kSwizzle>(b + i * kTileN * kSliceBytes + k * 32, 16, 8 * kSliceBytes);
#pragma unroll
      for (int m = 0; m < rows; m++) {
        const u32 left = a + (i * kTileM + m * 64) * kSliceBytes + k * (CONV_TRANSPOSED_X ? 2048 : 32);
        wgmma<CONV_TRANSPOSED_X, CONV_TRANSPOSED_W>(
            sum[m], operand<kSwizzle>(left, CONV_TRANSPOSED_X ? 8192 : 16, 8 * kSliceBytes), right,
            add || i * kSlice / 16 + k != first);
      }
    }
  }
}

#include "conv_fprop_epilogue.cuh"

// Computes the sums of one tile. A stage is released to the producer once the products that read it are done.
struct Multiplier {
  u32 shared;
  Barriers bars;
  int group;

  NIXIE_DEVICE void operator()(Sums& sum, Ring<kStages>& ring, const Item& item, const Turn& turn) const {
    const bool leader = threadIdx.x % 128 == 0;
    turn.wait();
    for (int block = item.begin; block < item.end; block++, ring.next()) {
      const u32 a = shared + ring.stage * kStageBytes + group * kMmaM * 64 * kSliceBytes,
                b = shared + (CONV_RESIDENT ? kRingBytes + block * kBytesB : ring.stage * kStageBytes + kBytesA);
      barrier_wait(bars.full_at(ring.stage), ring.parity);
      pin_all(sum);
      wgmma_begin();
      multiply_stage(sum, a, b, block != item.begin);
      wgmma_commit();
      wgmma_wait<1>();  // the previous stage has been read: release it
      if (block > item.begin && leader) bars.release(ring.previous());
    }
    turn.pass();
    wgmma_wait<0>();
    if (leader) bars.release(ring.previous());
    pin_all(sum);
  }

#if CONV_GROUP
  // Rounds sums that were added.
  NIXIE_DEVICE static void round(TensorSum (&sum)[kTileN / 2]) {
#if CONV_ROUNDS
#pragma unroll
    for (int i = 0; i < kTileN / 2; i++) sum[i] = merged(sum[i], -0.0f);
#endif
  }
  // The same, with nothing moved over it: a wait for what has been is a loop, which ptxas moves no instruction past. It
  // would round before and behind the products that run meanwhile.
  NIXIE_DEVICE void round_here(TensorSum (&sum)[kTileN / 2]) const {
    barrier_wait(bars.filters, !CONV_RESIDENT);
    pin(sum), round(sum), pin(sum);
    barrier_wait(bars.filters, !CONV_RESIDENT);
  }

  // The same with the sums of each group of terms added in f32, and rounded; so are parts.
  NIXIE_DEVICE void promoted(Sums& sum, Ring<kStages>& ring, const Item& item) const {
    const bool leader = threadIdx.x % 128 == 0;
    TensorSum group_sum[1][kTileN / 2];
#pragma unroll
    for (int i = 0; i < kMmaM * kTileN / 2; i++) sum[i / (kTileN / 2)][i % (kTileN / 2)] = 0;
#if CONV_PART
    Sums whole = {};  // of the parts before
#endif
    for (int block = item.begin; block < item.end; block++, ring.next()) {
      const u32 a = shared + ring.stage * kStageBytes + group * kMmaM * 64 * kSliceBytes,
                b = shared + (CONV_RESIDENT ? kRingBytes + block * kBytesB : ring.stage * kStageBytes + kBytesA);
      barrier_wait(bars.full_at(ring.stage), ring.parity);
#pragma unroll
      for (int m = 0; m < kMmaM; m++)
        add_groups<0>(sum[m], group_sum, a + m * 64 * kSliceBytes, b, [&] {
          if (m == kMmaM - 1 && leader) bars.release(ring.stage);
        });
#if CONV_PART
      if ((block + 1) % CONV_PART != 0 && block + 1 < item.end) continue;
#pragma unroll
      for (int m = 0; m < kMmaM; m++) {
        if (CONV_LATE) round(sum[m]);
#pragma unroll
        for (int i = 0; i < kTileN / 2; i++) whole[m][i] += sum[m][i];
        round(whole[m]);
#pragma unroll
        for (int i = 0; i < kTileN / 2; i++) sum[m][i] = block + 1 < item.end ? 0 : whole[m][i];
      }
#endif
    }
#if CONV_ROUNDS
#if CONV_LATE && !CONV_PART
#pragma unroll
    for (int m = 0; m < kMmaM; m++) round(sum[m]);
#endif
#pragma unroll
    for (int i = 0; i < kMmaM * kTileN / 2; i++) sum[i / (kTileN / 2)][i % (kTileN / 2)] += 0.0f;  // -0 becomes 0
#endif
  }

  // Adds the sums of the stage's groups, from that of 16 * `first` terms on, to those of 64 rows, and rounds these:
  // late before, while products run. Calls read() once all operands have been read.
  template <int first, class Read>
  NIXIE_DEVICE void add_groups(TensorSum (&sum)[kTileN / 2], TensorSum (&group_sum)[1][kTileN / 2], u32 a, u32 b,
                               Read read) const {
    constexpr int all = kSlicesPerStage * kSlice / 16, count = CONV_GROUP / 16 < all ? CONV_GROUP / 16 : all;
    pin(group_sum[0]);
    wgmma_begin();
    multiply_stage<1, first, count>(group_sum, a, b, false);
    wgmma_commit();
    if (CONV_LATE) round_here(sum);
    wgmma_wait<0>();
    pin(group_sum[0]);
    if (first + count == all) read();
#pragma unroll
    for (int i = 0; i < kTileN / 2; i++) sum[i] += group_sum[0][i];
    if (!CONV_LATE) round(sum);
    if constexpr (first + count < all) add_groups<first + count>(sum, group_sum, a, b, read);
  }
#endif

  // The same for two planes.
  NIXIE_DEVICE void in_planes(Sums& sum, Ring<kStages>& ring) const {
    const bool leader = threadIdx.x % 128 == 0;
    Sums high, cross;
#pragma unroll
    for (int i = 0; i < kMmaM * kTileN / 2; i++) sum[i / (kTileN / 2)][i % (kTileN / 2)] = 0;
    for (int block = 0; block < kBlocks; block++, ring.next()) {
      const u32 a = shared + ring.stage * kStageBytes + group * kMmaM * 64 * kSliceBytes,
                b = shared + ring.stage * kStageBytes + kBytesA;
      barrier_wait(bars.full_at(ring.stage), ring.parity);
      pin_all(high), pin_all(cross);
      wgmma_begin();
      multiply_stage(high, a, b, false);
      wgmma_commit();
      multiply_stage(cross, a, b + kPlaneBytes, block != 0);
      multiply_stage(cross, a + kPlaneBytes, b, true);
      wgmma_commit();
      wgmma_wait<1>();  // the products of the high planes, and all of the previous stage's
      pin_all(high);
      if (block > 0 && leader) bars.release(ring.previous());
#pragma unroll
      for (int i = 0; i < kMmaM * kTileN / 2; i++)
        sum[i / (kTileN / 2)][i % (kTileN / 2)] += high[i / (kTileN / 2)][i % (kTileN / 2)];
    }
    wgmma_wait<0>();
    if (leader) bars.release(ring.previous());
    pin_all(cross);
#pragma unroll
    for (int i = 0; i < kMmaM * kTileN / 2; i++)
      sum[i / (kTileN / 2)][i % (kTileN / 2)] += 0x1p-11f * cross[i / (kTileN / 2)][i % (kTileN / 2)];
  }
};

NIXIE_DEVICE void consume(const Epilogue& epilogue, const Multiplier& multiplier, int turn) {
  Sums sum;
  Ring<kStages> ring;
  Epilogue::Parts parts;
  const Worker worker;
  if (CONV_RESIDENT) barrier_wait(multiplier.bars.filters, 0);
  const int last = (kItems - 1 - worker.number) / worker.count;
  if (turn > 0) ring.skip(kBlocks);
  for (int number = turn; number <= last; number += kTurns) {
    const Item item(worker.number + number * worker.count);
    const int tile = item.tile, pixel = worker.first_pixel(tile) + multiplier.group * kMmaM * 64;
#if PARTS_OF_CHANNELS
    epilogue.begin(pixel, Column(tile), parts);
#endif
#if CONV_GROUP
    multiplier.promoted(sum, ring, item);
#else
    if (kPlanes == 2)
      multiplier.in_planes(sum, ring);
    else
      multiplier(sum, ring, item, Turn{number, last});
#endif
    if (kTurns > 1) ring.skip(kBlocks);  // of the other's tile
#if CONV_SPLITS > 1
    __shared__ u32 is_last[kConsumers];
    const int part_of = tile * kConsumers + multiplier.group;
    float* const split_parts =
        epilogue.body.split_parts + static_cast<u64>(part_of) * CONV_SPLITS * kMmaM * kTileN / 2 * 128;
    if (!add_parts<CONV_SPLITS>(sum, item.split, split_parts, epilogue.body.arrived + part_of,
                                is_last[multiplier.group], threadIdx.x % 128, 1 + multiplier.group))
      continue;
#endif
    epilogue(sum, pixel, Column(tile), parts);
  }
#ifdef PARTS
  epilogue.leave(worker, parts);
#endif
}

#if CONV_PAIRS
#define CLUSTERED __cluster_dims__(2, 1, 1)
#else
#define CLUSTERED
#endif

extern "C" __global__ void CLUSTERED __launch_bounds__((kConsumers + 1) * 128, 1)
    conv_fprop(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
#if CONV_PRODUCTS == 3
               const __grid_constant__ TensorMap x_low, const __grid_constant__ TensorMap w_low,
#endif
               const __grid_constant__ Body body) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full[kStages], empty[kStages], filters;
  u32 shared = (shared_address(dynamic) + 1023) & ~1023u;
  Barriers bars{shared_address(full), shared_address(empty), shared_address(&filters)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(bars.full_at(i), 1);
      barrier_init(bars.empty_at(i), kSharing << CONV_PAIRS);
    }
    barrier_init(bars.filters, 1);
    barrier_init_done();
    prefetch_map(&x), prefetch_map(&w);
  }
  if (CONV_PAIRS)
    cluster_sync();
  else
    __syncthreads();
#if CONV_PRODUCTS == 3
  const Maps maps{{&x, &x_low}, {&w, &w_low}};
#else
  const Maps maps{{&x}, {&w}};
#endif
  int role = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (role == 0) {
    if (kConsumers > 1) registers_down<kConsumers == 2 ? 40 : 32>();
    if (threadIdx.x == 0) produce(maps, shared, bars);
  } else {
    if (kConsumers > 1) registers_up<kConsumers == 2 ? 232 : 160>();
    const int warp = threadIdx.x / 32 - 4, consumer = role - 1;
    consume({body, shared + kRingBytes + kResidentBytes + warp * 4096}, {shared, bars, kTurns > 1 ? 0 : consumer},
            kTurns > 1 ? consumer : 0);
  }
  if (CONV_PAIRS) cluster_sync();  // until the other has released all that this one filled
}
