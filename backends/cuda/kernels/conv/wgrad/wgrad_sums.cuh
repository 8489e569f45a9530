// The end of a filter gradient on Hopper: passes a tile's sums from wgmma's order to Body or to a part, adds the parts
// of shared tiles, and has the kernel that adds bias gradients. conv_wgrad_sm90.cuh and conv_wgrad_halo_sm90.cuh define
// before they include this file:
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

constexpr int kPieces = kMmaM * kTileN / 8;
constexpr int kTurns = kConsumers * 128 / kTileThreads;  // consumers that have their own tiles
static_assert(kPieces % 4 == 0);

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

// Whether a piece is inside the result.
NIXIE_DEVICE bool is_inside(const Item& item, int piece, int thread) {
  bool inside = false;
  at_piece(item, piece, thread, [&](int, int, int) { inside = true; });
  return inside;
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

// The threads that share a tile meet at a barrier of their own.
NIXIE_DEVICE void meet(int consumer) {
  asm volatile("bar.sync %0, %1;" ::"r"(3 + (kTurns > 1 ? consumer : 0)), "n"(kTileThreads) : "memory");
}

// One of the parts of a tile whose stages several items share. Each is stored and adds its share of the tile.
struct Part {
  int first, count, own;  // the slots of all parts, and which of them is the item's
  u32* arrived;           // how many parts are stored, and how many blocks saw that all are; zero between runs
  NIXIE_DEVICE Part(const Body& body, int4 v) : first(v.x), count(v.y), own(v.z), arrived(body.arrived + 2 * v.w) {}

  NIXIE_DEVICE const float4* slots(const Body& body) const {
    return reinterpret_cast<const float4*>(body.parts) + static_cast<u64>(first) * kPieces * kTileThreads;
  }

  NIXIE_DEVICE void store(const Body& body, const Sums& sums, const Item& item, u32 staging, int thread,
                          int consumer) const {
    float4* to = const_cast<float4*>(slots(body)) + static_cast<u64>(own) * kPieces * kTileThreads + thread;
#pragma unroll
    for (int i = 0; i < kPieces; i += 4) {
      float4 v[4];
      asm volatile("" : "+r"(thread));  // or the compiler computes all pieces' positions in advance
      to_pieces(&sums.tile[i / (kTileN / 8)][i % (kTileN / 8) * 4], staging, v);
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (is_inside(item, i + j, thread)) __stcg(to + (i + j) * kTileThreads, v[j]);
    }
    meet(consumer);
    if (thread == 0) __threadfence(), atomicAdd(arrived, 1u);
  }

  NIXIE_DEVICE void wait(int thread, int consumer) const {
    if (thread == 0) {
      for (u32 tries = 0, now = 0; now < count;) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
        if (++tries == (1u << 22)) asm volatile("trap;");
      }
      if (atomicAdd(arrived + 1, 1u) == count - 1) arrived[0] = arrived[1] = 0;  // ready for the next run
    }
    meet(consumer);
  }

  // Adds all parts of a share of the tile, and runs Body over it. Each of n groups of threads adds every n-th part;
  // their sums are added in order, through `shared`. So many loads are in flight that latency counts once or twice.
  NIXIE_DEVICE void merge(const Body& body, const Item& item, u32 shared, int thread, int consumer) const {
    constexpr int kRuns = kPieces * kTileThreads / 8, kAtOnce = 12;  // runs of eight pieces are whole lines
    const int begin = kRuns * own / count * 8, end = kRuns * (own + 1) / count * 8;
    const int width = max(min(end - begin, kTileThreads), 1), groups = kTileThreads / width;
    const int group = thread / width, x = thread % width;
    const float4* const parts = slots(body);
    bool waits = true;
    for (int at = begin; at < end; at += width, waits = false) {
      const int position = at + x, piece = position / kTileThreads, owner = position % kTileThreads;
      const bool inside = group < groups && position < end && is_inside(item, piece, owner);
      PieceLoads<1> loads;
      if (inside && group == 0) loads.load(body, item, piece, owner);
      if (waits) wait(thread, consumer);
      float4 sum = {};
      for (int i = group; inside && i < count; i += kAtOnce * groups) {
        float4 v[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; j++)
          if (i + j * groups < count)
            v[j] = __ldcg(parts + static_cast<u64>(i + j * groups) * kPieces * kTileThreads + position);
#pragma unroll
        for (int j = 0; j < kAtOnce; j++)
          if (i + j * groups < count) add(sum, v[j]);
      }
      if (groups > 1) {
        store_shared(shared + thread * 16, sum);
        meet(consumer);
        for (int other = 1; group == 0 && other < groups; other++)
          add(sum, load_shared(shared + (other * width + x) * 16));
      }
      if (inside && group == 0) loads.run(body, &sum, item, piece, owner);
    }
    if (waits) wait(thread, consumer);  // of more parts than lines some have no share
  }
};

// Stores a part, or runs Body over a whole tile.
NIXIE_DEVICE void finish(const Body& body, const Sums& sums, const Item& item, int index, u32 staging, int thread,
                         int consumer) {
  if (item.slot < 0) {
    run_tile(body, sums, item, staging, thread);
  } else {
    Part(body, body.merges[index]).store(body, sums, item, staging, thread, consumer);
  }
  float* const bias_parts = body.bias_parts + index * kLines * kTileM;
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
    const int lane = threadIdx.x % 32;
#if CONV_TURNED
    for (int column = lane; rows > 0 && column < kLines * kTileN; column += 32) {
      int tap, c;
      if (locate(item, column / kTileN * 128, column % kTileN, tap, c))
        body.prefetch((item.group * CONV_C + c) * kPositions + kPositions - 1 - tap, item.m * kTileM, rows);
    }
#else
    for (int row = lane; row < rows; row += 32)
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

// Computes the bias gradients of 32 filters: warps share the items, whose sums are added in a fixed order.
NIXIE_DEVICE void reduce_bias(const Body& body, int block) {
  constexpr int kWarps = kTileThreads / 32;
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

extern "C" __global__ void __launch_bounds__(kTileThreads) conv_wgrad_bias(const __grid_constant__ Body body) {
  if (CONV_BIAS_GRAD) reduce_bias(body, blockIdx.x);
}
