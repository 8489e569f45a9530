// The end of a filter gradient on Hopper: passes a tile's sums from wgmma's order to Body or to a part, and has the
// kernel that adds parts. conv_wgrad_sm90.cuh and conv_wgrad_halo_sm90.cuh define before they include this file:
//   kTileM kMmaM kTileN     filters per tile; filters per consumer / 64; columns per consumer
//   kConsumers kTileThreads consumers per block, threads per tile
//   kLines                  consumers that have the same filters but different columns
//   kTilesM kPlanes         rows of tiles; planes of operands
//   kPositions              positions of a filter, as Body counts them
//   kSlice                  channels side by side in a consumer's columns
//   kOtherRegisters         registers that a thread needs besides sums and loads in flight
// and after it
//   bool locate(const Item&, int thread, int column, int& tap, int& channel)   the tap and channel of a column, if any
// With CONV_TURNED = 1 rows are the layer's channels, columns its filters, and taps count from the last.
#pragma once
#include "ptx.cuh"

constexpr int kPieces = kMmaM * kTileN / 8, kCluster = CONV_CLUSTER;
constexpr int kTurns = kConsumers * 128 / kTileThreads;  // consumers that have their own tiles
static_assert(kPieces % 4 == 0 && (kCluster == 1 || kTurns == 1));

struct Item {
  int group, m, n, first, count, slot;
  NIXIE_DEVICE explicit Item(int4 v)
      : group(CONV_GROUPS == 1 ? 0 : (v.x & 0xffff) / kTilesM),
        m(CONV_GROUPS == 1 ? v.x & 0xffff : (v.x & 0xffff) % kTilesM),
        n(v.x >> 16),
        first(v.y),
        count(v.z),
        slot(v.w) {}
};

struct Sums {
  float tile[kMmaM][kTileN / 2];
  float bias[kMmaM][4];
};

// A thread has kPieces pieces of sums, each for four neighbouring channels of the layer: of a warp's 16 rows x 32
// columns each lane has four pieces. Eight lanes share a row of 32 columns, so that Body reads and writes whole lines;
// turned, four lanes share a column of 16 rows.
NIXIE_DEVICE int first_row_of(int m, int thread) {
  return (thread / (128 * kLines) * kMmaM + m) * 64 + thread % 128 / 32 * 16;
}
NIXIE_DEVICE int row_of(int piece, int thread) {
  return first_row_of(piece / (kTileN / 8), thread) + (CONV_TURNED ? thread % 4 * 4 : piece % 4 * 4 + thread % 32 / 8);
}
NIXIE_DEVICE int column_of(int piece, int thread) {
  return piece % (kTileN / 8) / 4 * 32 + (CONV_TURNED ? piece % 4 * 8 + thread % 32 / 4 : thread % 8 * 4);
}

// Body takes a whole piece, or, if rows are packed, one column at a time.
constexpr int kCalls = CONV_ROW_CHANNELS ? 4 : 1, kLanes = 4 / kCalls;

NIXIE_DEVICE bool locate(const Item& item, int thread, int column, int& tap, int& channel);

// Calls act(call, position, channel) for each part of a piece that is inside the result.
template <class Act>
NIXIE_DEVICE void at_piece(const Item& item, int piece, int thread, Act act) {
  const int within = item.m * kTileM + row_of(piece, thread);
  if (CONV_K % kTileM != 0 && within >= CONV_K) return;
#pragma unroll
  for (int call = 0; call < kCalls; call++) {
    int tap, c;
    if (!locate(item, thread, column_of(piece, thread) + call, tap, c)) continue;
    if (CONV_TURNED)
      act(call, (item.group * CONV_C + c) * kPositions + kPositions - 1 - tap, within);
    else
      act(call, (item.group * CONV_K + within) * kPositions + tap, c);
  }
}

// Body's loads for neighbouring pieces from `first` on, all issued before the first use; run() then runs Body.
template <int kCount>
struct PieceLoads {
  Body::Loads of[kCount][kCalls];
  NIXIE_DEVICE void load(const Body& body, const Item& item, int first, int thread) {
#pragma unroll
    for (int i = 0; i < kCount; i++)
      at_piece(item, first + i, thread, [&](int call, int position, int c) { body.load(position, c, of[i][call]); });
  }
  NIXIE_DEVICE void run(const Body& body, const float4* v, const Item& item, int first, int thread) const {
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      const float all[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
      at_piece(item, first + i, thread, [&](int call, int position, int c) {
        float sum[kLanes];
#pragma unroll
        for (int lane = 0; lane < kLanes; lane++) sum[lane] = all[call * kLanes + lane];
        body.run(position, c, of[i][call], sum);
      });
    }
  }
};

// Brings a warp's 16 x 32 sums from wgmma's order to that of pieces, through 2 KB of shared memory. 16-byte units are
// swizzled so that neither writes nor reads have bank conflicts.
NIXIE_DEVICE void to_pieces(const float* sums, u32 staging, float4 (&pieces)[4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  __syncwarp();
#if CONV_TURNED
  const auto unit = [&](int column, int unit) { return staging + column * 64 + (unit ^ (column / 2 % 4)) * 16; };
#pragma unroll
  for (int i = 0; i < 16; i++)  // rows g and g + 8 of two columns
    store_shared(unit(i / 4 * 8 + t * 2 + i % 2, g / 4 + i % 4 / 2 * 2) + g % 4 * 4, sums[i]);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; i++) pieces[i] = load_shared(unit(i * 8 + g, t));
#else
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const u32 to = staging + g * 128 + ((i * 2 + t / 2) ^ (g % 4 * 2)) * 16 + t % 2 * 8;
    store_shared(to, make_float2(sums[i * 4], sums[i * 4 + 1]));
    store_shared(to + 1024, make_float2(sums[i * 4 + 2], sums[i * 4 + 3]));
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; i++)
    pieces[i] = load_shared(staging + (i * 4 + lane / 8) * 128 + ((lane % 8) ^ (lane / 8 * 2)) * 16);
#endif
}

// Runs Body over a whole tile. An update is bound by its loads, and a few hundred threads hide memory latency only if
// the loads of the next pieces are in flight while these run: as many as registers hold. The sums of two planes, or of
// three consumers with 192 columns, leave no registers for that.
NIXIE_DEVICE void run_tile(const Body& body, const Sums& sums, const Item& item, u32 staging, int thread) {
  constexpr int kRegisters = (kConsumers == 2   ? 232
                              : kConsumers == 1 ? 255
                                                : 160) -
                             kMmaM * kTileN / 2 - kOtherRegisters;
  constexpr bool kAhead = kPlanes == 1 && kRegisters >= 32;
  constexpr int kPiece = 2 * kCalls * sizeof(Body::Loads) / 4;  // registers for the loads of this piece and of the next
  constexpr int kAtOnce = kPlanes == 2               ? 2
                          : !kAhead                  ? 1
                          : kPiece * 4 <= kRegisters ? 4
                          : kPiece * 2 <= kRegisters ? 2
                                                     : 1;
  PieceLoads<kAtOnce> loads[1 + kAhead];
  if (kAhead) loads[0].load(body, item, 0, thread);
#pragma unroll
  for (int first = 0; first < kPieces; first += 4) {
    float4 v[4];
    to_pieces(&sums.tile[first / (kTileN / 8)][first % (kTileN / 8) * 4], staging, v);
#pragma unroll
    for (int i = 0; i < 4; i += kAtOnce) {
      if (CONV_TURNED) asm volatile("" : "+r"(thread));  // or the compiler computes all pieces' positions in advance
      const int piece = first + i, loaded = kAhead ? piece + kAtOnce : piece;
      if (loaded < kPieces) loads[kAhead ? loaded / kAtOnce % 2 : 0].load(body, item, loaded, thread);
      loads[kAhead ? piece / kAtOnce % 2 : 0].run(body, &v[i], item, piece, thread);
    }
  }
}

NIXIE_DEVICE void add(float4& sum, const float4& v) { sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w; }

// The blocks of a cluster share the stages of each item, a whole tile. Each stores its sums in its ring, all of whose
// stages are read by then. Then it adds those of all blocks, in their order, for every kCluster-th group of four
// pieces.
struct Cluster {
  u32 ring, stored, read;  // the ring, and barriers at which all blocks of the cluster arrive
  u32 rank, parity;

  // The compiler keeps sums in registers until the next item's products, which start from zero without its knowledge.
  // Adding needs these registers: sums that are set before the products are free until then.
  NIXIE_DEVICE static void begin(Sums& sums) {
#pragma unroll
    for (int i = 0; i < (kCluster > 1 ? kMmaM * kTileN / 2 : 0); i++) sums.tile[i / (kTileN / 2)][i % (kTileN / 2)] = 0;
  }

  NIXIE_DEVICE void run_tile(const Body& body, const Sums& sums, const Item& item, u32 staging, int thread) const {
    constexpr int kAtOnce = kConsumers == 3 ? 1 : 4;  // loads in flight: three consumers have fewer registers
    meet();
#pragma unroll
    for (int i = 0; i < kPieces; i++) {
      const float* v = &sums.tile[i / (kTileN / 8)][i % (kTileN / 8) * 4];
      store_shared(at(i, thread), make_float4(v[0], v[1], v[2], v[3]));
    }
    arrive(stored, thread);
    barrier_wait_cluster(stored, parity);
#pragma unroll 1
    for (int first = rank * 4; first < kPieces; first += kCluster * 4) {
      PieceLoads<kAtOnce> loads;
      loads.load(body, item, first, thread);
      float4 all[4] = {}, v[4];
#pragma unroll
      for (u32 block = 0; block < kCluster; block++)
#pragma unroll
        for (int i = 0; i < 4; i++) add(all[i], load_from_block(in_block(at(first + i, thread), block)));
      to_pieces(&all[0].x, staging, v);
#pragma unroll
      for (int i = 0; i < 4; i += kAtOnce) {
        if (i > 0) loads.load(body, item, first + i, thread);
        loads.run(body, &v[i], item, first + i, thread);
      }
    }
    // The block neither ends nor fills its ring again before all have read it.
    fence_async_proxy();
    arrive(read, thread);
    barrier_wait_cluster(read, parity);
  }

 private:
  NIXIE_DEVICE static void meet() { asm volatile("bar.sync 1, %0;" ::"n"(kTileThreads) : "memory"); }
  NIXIE_DEVICE u32 at(int piece, int thread) const { return ring + (piece * kTileThreads + thread) * 16; }
  NIXIE_DEVICE static void arrive(u32 bar, u32 thread) {
    meet();
    if (thread < kCluster) barrier_arrive_at_block(in_block(bar, thread));
  }
};

// Stores a part, or runs Body over a whole tile.
NIXIE_DEVICE void finish(const Body& body, const Sums& sums, const Item& item, const Cluster& cluster,
                         float* bias_parts, u32 staging, int thread) {
  if (kCluster > 1) {
    cluster.run_tile(body, sums, item, staging, thread);
  } else if (item.slot < 0) {
    run_tile(body, sums, item, staging, thread);
  } else {
    float4* parts =
        reinterpret_cast<float4*>(body.parts) + static_cast<u64>(item.slot) * kPieces * kTileThreads + thread;
#pragma unroll
    for (int first = 0; first < kPieces; first += 4) {
      float4 v[4];
      to_pieces(&sums.tile[first / (kTileN / 8)][first % (kTileN / 8) * 4], staging, v);
#pragma unroll
      for (int i = 0; i < 4; i++) parts[(first + i) * kTileThreads] = v[i];
    }
  }
  if (CONV_BIAS_GRAD && thread % 4 == 0) {  // all columns of the product with ones are equal: one lane of four writes
#pragma unroll
    for (int i = 0; i < 2 * kMmaM; i++)
      bias_parts[thread / 128 % kLines * kTileM + first_row_of(i / 2, thread) + thread % 32 / 4 + i % 2 * 8] =
          sums.bias[i / 2][i % 2 * 2];
  }
}

#if CONV_PREFETCH
// Prefetches into L2 what Body will read for whole tiles, while their products run. A warp with nothing else to do
// prefetches one item at a time, when the producer begins it: all at once would be more than L2 holds.
NIXIE_DEVICE void prefetch_tiles(const Body& body, const int4* items, int count, const volatile int& begun) {
  for (int i = 0; i < count; i++) {
    while (begun <= i) __nanosleep(100);
    const Item item(items[i]);
    const int rows = item.slot < 0 ? min(kTileM, CONV_K - item.m * kTileM) : 0;
    const int rank = blockIdx.x % kCluster, lane = rank * 32 + threadIdx.x % 32, lanes = 32 * kCluster;
#if CONV_TURNED
    for (int column = lane; rows > 0 && column < kLines * kTileN; column += lanes) {
      int tap, c;
      if (locate(item, column / kTileN * 128, column % kTileN, tap, c))
        body.prefetch((item.group * CONV_C + c) * kPositions + kPositions - 1 - tap, item.m * kTileM, rows);
    }
#else
    for (int row = lane; row < rows; row += lanes)
      for (int line = 0; line < kLines; line++)
        for (int column = 0; column < kTileN; column += kSlice) {
          int tap, c;
          if (locate(item, line * 128, column, tap, c))
            body.prefetch((item.group * CONV_K + item.m * kTileM + row) * kPositions + tap, c, min(kSlice, CONV_C - c));
        }
#endif
  }
}
#endif

// Threads of conv_wgrad_reduce; several groups of them share the parts of a tile, or one would wait for each in turn.
constexpr int kReducing = kTileThreads * CONV_WAYS;

// Computes the bias gradients of 32 filters: warps share the items, whose sums are added in a fixed order.
NIXIE_DEVICE void reduce_bias(const Body& body, int block) {
  constexpr int kWarps = kReducing / 32;
  __shared__ float sums[kWarps][32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, tile = block / (kTileM / 32),
      row = block % (kTileM / 32) * 32 + lane;
  float sum = 0;
#pragma unroll 8
  for (int i = warp; i < CONV_ITEMS * kLines; i += kWarps) {
    float v = body.bias_parts[i * kTileM + row];
    if ((body.items[i / kLines].x & 0xffff) == tile) sum += v;
  }
  sums[warp][lane] = sum;
  __syncthreads();
  const int filter = tile % kTilesM * kTileM + row;
  if (warp != 0 || filter >= CONV_K) return;
  for (int i = 1; i < kWarps; i++) sum += sums[i][lane];
  body.db[tile / kTilesM * CONV_K + filter] = sum;
}

// The sum of a thread's numbers of `count` parts, the first at `from`.
NIXIE_DEVICE float4 sum_of_parts(const float4* from, int count) {
  constexpr int kAtOnce = 16;  // loads in flight: this kernel is bound by their latency
  float4 sum = {};
  for (int i = 0; i < count; i += kAtOnce) {
    float4 v[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; j++)
      if (i + j < count) v[j] = from[static_cast<u64>(i + j) * kPieces * kTileThreads];
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) {
      if (i + j >= count) break;
      add(sum, v[j]);
    }
  }
  return sum;
}

extern "C" __global__ void __launch_bounds__(kReducing) conv_wgrad_reduce(const __grid_constant__ Body body) {
  const int block = blockIdx.x;
  if (CONV_BIAS_GRAD && block >= CONV_SPLITS) {
    if (blockIdx.y == 0) reduce_bias(body, block - CONV_SPLITS);
    return;
  }
  const Item tile(body.splits[block]);
  const int piece = blockIdx.y, thread = threadIdx.x % kTileThreads, way = threadIdx.x / kTileThreads,
            share = (tile.count + CONV_WAYS - 1) / CONV_WAYS, before = way * share;
  const float4* from = reinterpret_cast<const float4*>(body.parts) +
                       (static_cast<u64>(tile.first + before) * kPieces + piece) * kTileThreads + thread;
  PieceLoads<1> loads;
  if (way == 0) loads.load(body, tile, piece, thread);
  float4 sum = sum_of_parts(from, min(share, tile.count - before));
  if (CONV_WAYS > 1) {
    __shared__ float4 sums[CONV_WAYS][kTileThreads];
    sums[way][thread] = sum;
    __syncthreads();
    if (way > 0) return;
#pragma unroll
    for (int i = 1; i < CONV_WAYS; i++) add(sum, sums[i][thread]);
  }
  loads.run(body, &sum, tile, piece, thread);
}
