// The products of gemm.cuh on tensor cores, by mma.sync: A and B are both f16, both bf16, both f32 rounded to tf32, or
// 8-bit floats, which are f16 in shared memory (all of their numbers are numbers of f16); sums are float. From sm_80
// on.
//
// A tile has kWarpsM x kWarpsN warps; each computes products of 16 x 8 x kStep, where kStep is 32 bytes along k. An
// operand keeps its memory order in shared memory, [line][k] or [k][line]; in the second, ldmatrix transposes halves,
// and floats are read one by one. Sums pass through shared memory, 16 rows of a warp at a time, so that neighbouring
// lanes store neighbouring elements.
#pragma once

#include "gemm.cuh"

template <bool transposed>
__device__ inline void load_matrices(u32 (&registers)[4], const void* row) {
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(row));
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address));
}

// The terms (along k) of one product.
template <class T>
constexpr int kStep = 32 / sizeof(T);

// sum += a b, 16 x 8 x kStep.
template <class T>
__device__ inline void multiply_add_16x8(float* sum, const u32 (&a)[4], u32 b0, u32 b1) {
#define NIXIE_MMA(shape, type)                                                        \
  asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                \
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

// Rounds floats to the nearest tf32, makes f16 of 8-bit floats; leaves halves as they are.
template <class T, int n>
__device__ inline auto as_multiplied(Vector<T, n> values) {
  if constexpr (!kSame<typename Multiplied<T>::Type, T>) {
    Vector<f16, n> wide;
#pragma unroll
    for (int i = 0; i < n; ++i) wide.lane[i] = as_f16(values.lane[i]);
    return wide;
  } else {
    if constexpr (kSame<T, float>)
#pragma unroll
      for (int i = 0; i < n; ++i) {
        u32 bits;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(values.lane[i]));
        values.lane[i] = __uint_as_float(bits);
      }
    return values;
  }
}

// A tile of one operand, padded against bank conflicts: by 16 bytes between lines, whose matrix rows are read together,
// or by 8 elements between values of k, four of which are read together.
template <class T, int extent, int depth, bool along_k>
struct SharedTile {
  static constexpr int pitch = along_k ? depth + 16 / sizeof(T) : extent + 8;
  T memory[(along_k ? extent : depth) * pitch];
  T* at(int line, int k) { return memory + (along_k ? line * pitch + k : k * pitch + line); }

  // Loads the four matrices of 8 lines x 16 bytes (half of kStep) at (line, k). If `lines_first`, the second matrix is
  // 8 lines further and the third half a kStep further; otherwise the reverse. The fourth is both.
  template <bool lines_first>
  __device__ void load(u32 (&registers)[4], int line, int k) {
    constexpr int half_step = kStep<T> / 2;
    const int lane = threadIdx.x % 32;
    if constexpr (kSame<T, float> && !along_k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int first = i % 2, second = i / 2;
        registers[i] = __float_as_uint(*at(line + (lines_first ? first : second) * 8 + lane / 4,
                                           k + (lines_first ? second : first) * half_step + lane % 4));
      }
    } else {
      // The matrix row whose address this lane passes to ldmatrix; it is a row of k if matrices are transposed.
      const int low = lane % 8, first = lane / 8 % 2, second = lane / 16;
      line += (lines_first ? first : second) * 8 + (along_k ? low : 0);
      k += (lines_first ? second : first) * half_step + (along_k ? 0 : low);
      load_matrices<!along_k>(registers, at(line, k));
    }
  }
};

template <class Problem>
__device__ void gemm_mma(const Problem& problem) {
  using Index = typename Problem::Index;
  using T = typename Multiplied<typename Problem::A>::Type;
  static_assert(kSame<T, typename Multiplied<typename Problem::B>::Type>);
  constexpr int tile_m = Problem::kTileM, tile_n = Problem::kTileN, tile_k = Problem::kTileK;
  constexpr int threads = Problem::kThreads, warps_n = Problem::kWarpsN, warps_m = threads / 32 / warps_n;
  constexpr int warp_m = tile_m / warps_m, warp_n = tile_n / warps_n, down = warp_m / 16, across = warp_n / 8;
  static_assert(warp_m % 16 == 0 && warp_n % 16 == 0 && tile_k % kStep<T> == 0);
  using MoveA = typename Feeder<Problem>::MoveA;
  using MoveB = typename Feeder<Problem>::MoveB;
  // Double buffering: one tile is filled while the other is used.
  struct Shared {
    SharedTile<T, tile_m, tile_k, Problem::kAlongKA> a[2];
    SharedTile<T, tile_n, tile_k, Problem::kAlongKB> b[2];
  };
  __shared__ alignas(16) Shared shared;

  const Tile<Problem> tile;
  Feeder<Problem> next(problem, tile);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int m0 = warp / warps_n * warp_m, n0 = warp % warps_n * warp_n;

  float sum[down * across * 4];
#pragma unroll
  for (int i = 0; i < down * across * 4; ++i) sum[i] = 0;

  const auto fill = [&](int half) {
#pragma unroll
    for (int i = 0; i < MoveA::count; ++i)
      write(shared.a[half].at(MoveA::line(i), MoveA::k(i)), as_multiplied(arrived(next.a[i])));
#pragma unroll
    for (int i = 0; i < MoveB::count; ++i)
      write(shared.b[half].at(MoveB::line(i), MoveB::k(i)), as_multiplied(arrived(next.b[i])));
    __syncthreads();
  };

  next.fetch(tile.begin);
  fill(0);
  int half = 0;
  for (Index k0 = tile.begin; k0 < tile.end; k0 += tile_k, half ^= 1) {
    const bool more = k0 + tile_k < tile.end;
    if (more) next.fetch(k0 + tile_k);  // in flight while the products are computed
#pragma unroll
    for (int k = 0; k < tile_k; k += kStep<T>) {
      u32 a[down][4], b[across / 2][4];
#pragma unroll
      for (int i = 0; i < down; ++i) shared.a[half].template load<true>(a[i], m0 + i * 16, k);
#pragma unroll
      for (int j = 0; j < across / 2; ++j) shared.b[half].template load<false>(b[j], n0 + j * 16, k);
#pragma unroll
      for (int i = 0; i < down; ++i)
#pragma unroll
        for (int j = 0; j < across; ++j)
          multiply_add_16x8<T>(sum + (i * across + j) * 4, a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
    if (more) fill(half ^ 1);
  }

  if (!add_parts(problem, tile, sum)) return;
  constexpr int lanes = Problem::kLanes, pitch = warp_n + 8, across_row = warp_n / lanes, pieces = 16 * across_row;
  static_assert(threads / 32 * 16 * pitch * sizeof(float) <= sizeof(Shared) && pieces % 32 == 0);
  float* const staged = reinterpret_cast<float*>(&shared) + warp * 16 * pitch;
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
