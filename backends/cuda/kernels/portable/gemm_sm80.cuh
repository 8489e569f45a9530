// The products of gemm.cuh on tensor cores, by mma.sync: A and B are both f16, both bf16, both f32 rounded to tf32, or
// 8-bit floats, which are f16 in shared memory (all of their numbers are numbers of f16); sums are float. With kInParts
// f32 operands are sums of two numbers of tf32, high + low, and a product is low * high + high * low + high * high, 22
// bits of each; tensor cores truncate when they add, so the sums of each step are added in f32 with rounding. From
// sm_80 on.
//
// Steps of kTileK terms pass through a ring of kStages tiles in shared memory, which cp.async fills kStages - 1 steps
// ahead; what it cannot copy (single halves, pieces at any address, 8-bit floats) passes through registers. A block's
// warps, kWarpsN of them side by side, each compute products of 16 x 8 x kStep, where kStep is 32 bytes along k. An
// operand keeps its memory order in shared memory, [line][k] or [k][line]; in the second, ldmatrix transposes halves,
// and floats are read one by one. Sums pass through shared memory, 16 rows of a warp at a time, so that neighbouring
// lanes store neighbouring elements. Dynamic shared memory: kStages * (kTileM + kTileN) * kTileK elements.
#pragma once

#include "gemm.cuh"
#include "ptx.cuh"

// The type that is multiplied.
template <class T>
struct Multiplied {
  using Type = T;
};
template <>
struct Multiplied<f8e4m3> {
  using Type = f16;
};
template <>
struct Multiplied<f8e5m2> {
  using Type = f16;
};
template <class T, int n>
__device__ inline auto as_multiplied(const Vector<T, n>& values) {
  if constexpr (kSame<typename Multiplied<T>::Type, T>) {
    return values;
  } else {
    Vector<f16, n> wide;
#pragma unroll
    for (int i = 0; i < n; ++i) wide.lane[i] = as_f16(values.lane[i]);
    return wide;
  }
}

// The terms (along k) of one product.
template <class T>
constexpr int kStep = 32 / sizeof(T);

// sum += a b, 16 x 8 x kStep.
template <class T>
__device__ inline void multiply_add_16x8(float* sum, const u32 (&a)[4], u32 b0, u32 b1) {
#define NIXIE_MMA(shape, type)                                               \
  asm("mma.sync.aligned." shape ".row.col.f32." type "." type                \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])               \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  if constexpr (kSame<T, f16>)
    NIXIE_MMA("m16n8k16", "f16");
  else if constexpr (kSame<T, bf16>)
    NIXIE_MMA("m16n8k16", "bf16");
  else
    NIXIE_MMA("m16n8k8", "tf32");
#undef NIXIE_MMA
}

__device__ inline u32 as_tf32(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
// Leaves the high part of a float, 11 bits of it, and returns the low one, whose bits past the 11 that tensor cores
// read round it.
__device__ inline u32 take_low(u32& bits) {
  const float whole = __uint_as_float(bits);
  bits &= 0xffffe000u;
  return __float_as_uint(whole - __uint_as_float(bits)) + 0x1000u;
}

// Copies a piece of 4, 8 or 16 bytes to shared memory without passing through registers, or zeros.
template <int bytes>
__device__ inline void copy_async(u32 to, const void* from, bool inside) {
  if constexpr (bytes == 16)
    copy_piece(to, from, inside);
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes),
                 "r"(inside ? bytes : 0)
                 : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `pending` of the groups committed last are on their way.
template <int pending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// A tile of one operand. The 16-byte pieces of its rows change places, so that those that are read together are in
// different banks: a piece's eight rows for ldmatrix, or four rows of eight neighbours for single floats.
template <class T, int extent, int depth, bool along_k>
struct SharedTile {
  static constexpr int bytes = extent * depth * sizeof(T), row_bytes = (along_k ? depth : extent) * sizeof(T);
  static constexpr int pieces = row_bytes / 16, in_piece = 16 / sizeof(T);
  static constexpr bool one_by_one = kSame<T, float> && !along_k;
  static_assert(pieces == 2 || pieces == 4 || pieces % 8 == 0);

  // The address of an element, in bytes from the tile's.
  static __device__ u32 at(int line, int k) {
    const int row = along_k ? line : k, column = along_k ? k : line;
    const int turn = one_by_one ? row % 4 * 2 : pieces >= 8 ? row % 8 : row / (8 / (pieces < 8 ? pieces : 8)) % pieces;
    return row * row_bytes + (column / in_piece ^ turn) * 16 + column % in_piece * sizeof(T);
  }

  // Loads the four matrices of 8 lines x 16 bytes (half of kStep) at (line, k) of the tile at `base`. If `lines_first`,
  // the second matrix is 8 lines further and the third half a kStep further; otherwise the reverse. The fourth is both.
  template <bool lines_first, bool rounds>
  static __device__ void load(u32 (&registers)[4], u32 base, int line, int k) {
    constexpr int half_step = kStep<T> / 2;
    const int lane = threadIdx.x % 32;
    if constexpr (one_by_one) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int first = i % 2, second = i / 2;
        const u32 address = base + at(line + (lines_first ? first : second) * 8 + lane / 4,
                                      k + (lines_first ? second : first) * half_step + lane % 4);
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(registers[i]) : "r"(address) : "memory");
      }
    } else {
      // The matrix row whose address this lane passes to ldmatrix; it is a row of k if matrices are transposed.
      const int low = lane % 8, first = lane / 8 % 2, second = lane / 16;
      line += (lines_first ? first : second) * 8 + (along_k ? low : 0);
      k += (lines_first ? second : first) * half_step + (along_k ? 0 : low);
      if constexpr (along_k)
        load_matrices(registers, base + at(line, k));
      else
        load_transposed(registers, base + at(line, k));
    }
    if constexpr (rounds)
#pragma unroll
      for (u32& bits : registers) bits = as_tf32(__uint_as_float(bits));
  }
};

template <bool first, class A, class B>
struct Either {
  using Type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using Type = B;
};

// Fills tiles of one operand: by cp.async, or by registers, whose pieces arrive while products are computed.
template <class Problem, template <class> class Which>
struct TileFeed {
  using Base = LoadingFeed<Problem, Which>;
  using T = typename Base::T;
  using Wide = typename Multiplied<T>::Type;
  using Tiles = SharedTile<Wide, Base::Operand::extent, Base::depth, Base::along_k>;
  static constexpr int piece_bytes = Base::vector * sizeof(T);
  static constexpr bool is_async = kSame<T, Wide> && !Base::ragged && piece_bytes >= 4;
  typename Either<is_async, Feed<Problem, Which>, Base>::Type feed;

  TileFeed(const Problem& p, const Tile<Problem>& tile) : feed(p, tile) {}
  void begin(typename Problem::Index k0, u32 to) {
    if constexpr (is_async) {
      using Move = typename Base::Move;
      feed.each(k0, [&](int i, const T* from, bool inside, const Span&) {
        copy_async<piece_bytes>(to + Tiles::at(Move::line(i), Move::k(i)), from, inside);
      });
    } else {
      feed.fetch(k0);
    }
  }
  void end(char* to) const {
    if constexpr (!is_async)
      feed.for_each([&](int line, int k, const auto& values) {
        write(reinterpret_cast<Wide*>(to + Tiles::at(line, k)), as_multiplied(values));
      });
  }
};

template <class Problem>
__device__ void gemm_sm80(const Problem& problem) {
  using Index = typename Problem::Index;
  using T = typename Multiplied<typename Problem::A>::Type;
  static_assert(kSame<T, typename Multiplied<typename Problem::B>::Type>);
  constexpr int tile_m = Problem::kTileM, tile_n = Problem::kTileN, tile_k = Problem::kTileK;
  constexpr int threads = Problem::kThreads, warps_n = Problem::kWarpsN, warps_m = threads / 32 / warps_n;
  constexpr int warp_m = tile_m / warps_m, warp_n = tile_n / warps_n, down = warp_m / 16, across = warp_n / 8;
  constexpr int stages = Problem::kStages, steps = tile_k / kStep<T>;
  static_assert(warp_m % 16 == 0 && warp_n % 16 == 0 && tile_k % kStep<T> == 0 && steps % 2 == 0 && stages >= 3);
  using FeedA = TileFeed<Problem, FirstOperand>;
  using FeedB = TileFeed<Problem, SecondOperand>;
  using TilesA = typename FeedA::Tiles;
  using TilesB = typename FeedB::Tiles;
  constexpr int stage_bytes = TilesA::bytes + TilesB::bytes;
  extern __shared__ uint4 dynamic[];
  char* const memory = reinterpret_cast<char*>(dynamic);
  const u32 shared = static_cast<u32>(__cvta_generic_to_shared(dynamic));

  const Tile<Problem> tile;
  FeedA feed_a(problem, tile);
  FeedB feed_b(problem, tile);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int m0 = warp / warps_n * warp_m, n0 = warp % warps_n * warp_n;

  constexpr int sums = down * across * 4;
  constexpr bool in_parts = Problem::kInParts, rounds = kSame<T, float> && !in_parts;
  float sum[sums], of_step[in_parts ? sums : 1];
#pragma unroll
  for (int i = 0; i < sums; ++i) sum[i] = 0;
  // Rounded sums of one or two steps are merged at once; longer ones have registers of their own.
  constexpr int every = Problem::kSumsEvery, in_group = every / kStep<T>;
  constexpr bool keeps_groups = in_group > 2;
  static_assert(!keeps_groups || every % tile_k == 0);
  static_assert(every == 0 || !in_parts);
  RoundedSums<Problem, float, keeps_groups ? sums : 1> rounded;
  u32 a[2][down][4], b[2][across / 2][4];  // operands of a product, and of the next
  const auto load = [&](int which, u32 stage, int k) {
#pragma unroll
    for (int i = 0; i < down; ++i) TilesA::template load<true, rounds>(a[which][i], shared + stage, m0 + i * 16, k);
#pragma unroll
    for (int j = 0; j < across / 2; ++j)
      TilesB::template load<false, rounds>(b[which][j], shared + stage + TilesA::bytes, n0 + j * 16, k);
  };
  // to += the products of all a and b.
  const auto multiply = [&](float* to, const u32(&a)[down][4], const u32(&b)[across / 2][4]) {
#pragma unroll
    for (int i = 0; i < down; ++i)
#pragma unroll
      for (int j = 0; j < across; ++j)
        multiply_add_16x8<T>(to + (i * across + j) * 4, a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  };

  const auto multiply_one = [&](float* to, int i, int j, int which) {
    multiply_add_16x8<T>(to, a[which][i], b[which][j / 2][j % 2 * 2], b[which][j / 2][j % 2 * 2 + 1]);
  };

  Index ahead = tile.begin;  // the step that is fetched next
#pragma unroll
  for (int stage = 0; stage < stages - 1; ++stage, ahead += tile_k) {
    if (ahead < tile.end) {
      feed_a.begin(ahead, shared + stage * stage_bytes);
      feed_b.begin(ahead, shared + stage * stage_bytes + TilesA::bytes);
      feed_a.end(memory + stage * stage_bytes);
      feed_b.end(memory + stage * stage_bytes + TilesA::bytes);
    }
    commit_copies();
  }
  wait_for_copies<stages - 2>();
  __syncthreads();
  load(0, 0, 0);

  u32 full = 0, free = (stages - 1) * stage_bytes;  // the stage that is multiplied, and the one before it
  for (Index k0 = tile.begin; k0 < tile.end; k0 += tile_k, ahead += tile_k) {
    const u32 next = full == (stages - 1) * stage_bytes ? 0 : full + stage_bytes;
    const bool more = ahead < tile.end;
    if constexpr (in_parts)
#pragma unroll
      for (float& x : of_step) x = 0;
    // The next stage has arrived, and all warps have loaded what they multiply of the one before. This step's first
    // products are in registers, so that tensor cores do not wait for what is loaded after the barrier.
    wait_for_copies<stages - 3>();
    __syncthreads();
    const auto load_next = [&](int step) {
      load((step + 1) % 2, step == steps - 1 ? next : full, (step + 1) % steps * kStep<T>);
      if (step == steps - 1) {  // after all loads from shared memory, which would wait for these writes to it
        if (more) {
          feed_a.begin(ahead, shared + free);
          feed_b.begin(ahead, shared + free + TilesA::bytes);
        }
        commit_copies();
      }
    };
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const int now = step % 2;
      const bool waits = in_group == 2 && now == 1;  // for the products of both steps
      if (!waits) load_next(step);
      if constexpr (in_parts) {
        u32 low_a[down][4], low_b[across / 2][4];
#pragma unroll
        for (int i = 0; i < down * 4; ++i) low_a[i / 4][i % 4] = take_low(a[now][i / 4][i % 4]);
#pragma unroll
        for (int j = 0; j < across * 2; ++j) low_b[j / 4][j % 4] = take_low(b[now][j / 4][j % 4]);
        multiply(of_step, low_a, b[now]);
        multiply(of_step, a[now], low_b);
        multiply(of_step, a[now], b[now]);
      } else if constexpr (in_group == 1 || in_group == 2) {
        if (in_group == 2 && !waits) continue;
#pragma unroll
        for (int i = 0; i < down; ++i)
#pragma unroll
          for (int j = 0; j < across; ++j) {
            float group[4] = {0, 0, 0, 0};
            if (in_group == 2) multiply_one(group, i, j, 0);
            multiply_one(group, i, j, now);
            float* const to = sum + (i * across + j) * 4;
#pragma unroll
            for (int e = 0; e < 4; ++e) to[e] = Problem::merged(to[e], group[e]);
          }
      } else {
        multiply(sum, a[now], b[now]);
      }
      if (waits) load_next(step);
      if constexpr (keeps_groups)
        if (step == steps - 1 && (k0 + tile_k) % every == 0) rounded.merge(sum);
    }
    if constexpr (in_parts)
#pragma unroll
      for (int i = 0; i < sums; ++i) sum[i] += of_step[i];
    if (more) {
      feed_a.end(memory + free);
      feed_b.end(memory + free + TilesA::bytes);
    }
    free = full, full = next;
  }
  wait_for_copies<0>();
  if constexpr (keeps_groups) {
    rounded.finish(sum);
  } else if constexpr (every != 0) {
#pragma unroll
    for (int i = 0; i < sums; ++i) sum[i] += 0.0f;  // -0 becomes 0
  }

  if (!add_parts(problem, tile, sum)) return;
  constexpr int lanes = Problem::kLanes, pitch = warp_n + 8, across_row = warp_n / lanes, pieces = 16 * across_row;
  static_assert(threads / 32 * 16 * pitch * sizeof(float) <= stages * stage_bytes && pieces % 32 == 0);
  float* const staged = reinterpret_cast<float*>(memory) + warp * 16 * pitch;
  __syncthreads();  // all warps have read their operands
#pragma unroll
  for (int i = 0; i < down; ++i) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < across; ++j)
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const float* from = sum + (i * across + j) * 4 + e;
        write(staged + (lane / 4 + e / 2 * 8) * pitch + j * 8 + lane % 4 * 2, Vector<float, 2>{from[0], from[1]});
      }
    __syncwarp();
#pragma unroll 4
    for (int piece = lane; piece < pieces; piece += 32) {
      const int line = Problem::kRowsInside ? piece % 16 : piece / across_row,
                column = (Problem::kRowsInside ? piece / 16 : piece % across_row) * lanes;
      const Index m = tile.m + m0 + i * 16 + line, n = tile.n + n0 + column;
      const auto values = read_written<lanes>(staged + line * pitch + column);
      const auto place = problem.place(tile.group, m, n);
      if (place.inside) problem.finish(place, values.lane);
    }
  }
}
