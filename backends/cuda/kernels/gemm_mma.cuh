// The same products on tensor cores by mma.sync: A and B both f16 or both bf16, sums in float. From sm_80 on.
//
// Warps stand kWarpsM x kWarpsN over the tile; each makes products of 16 x 8 x 16. An operand keeps in shared memory
// the direction it has in memory, [line][k] or [k][line]; ldmatrix turns the second round.
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

template <class T>
__device__ inline void multiply_add_16x8x16(float* sum, const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (kSame<T, f16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A tile of one operand. The padding of 16 bytes keeps the rows of a matrix in different banks.
template <class T, int extent, int depth, bool along_k>
struct SharedTile {
  static constexpr int pitch = (along_k ? depth : extent) + 8;
  T memory[(along_k ? extent : depth) * pitch];
  T* at(int line, int k) { return memory + (along_k ? line * pitch + k : k * pitch + line); }
};

template <class Problem>
__device__ void gemm_mma(const Problem& problem) {
  using Index = typename Problem::Index;
  using T = typename Problem::A;
  static_assert(kSame<T, typename Problem::B>);
  constexpr int tile_m = Problem::kTileM, tile_n = Problem::kTileN, tile_k = Problem::kTileK;
  constexpr int threads = Problem::kThreads, warps_n = Problem::kWarpsN, warps_m = threads / 32 / warps_n;
  constexpr int warp_m = tile_m / warps_m, warp_n = tile_n / warps_n, down = warp_m / 16, across = warp_n / 8;
  static_assert(warp_m % 16 == 0 && warp_n % 16 == 0 && tile_k % 16 == 0);
  using MoveA = typename Feeder<Problem>::MoveA;
  using MoveB = typename Feeder<Problem>::MoveB;
  // Two of each: one is filled while the other is used.
  __shared__ alignas(16) SharedTile<T, tile_m, tile_k, Problem::kAlongKA> shared_a[2];
  __shared__ alignas(16) SharedTile<T, tile_n, tile_k, Problem::kAlongKB> shared_b[2];

  const Tile<Problem> tile;
  Feeder<Problem> next(problem, tile);

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int m0 = warp / warps_n * warp_m, n0 = warp % warps_n * warp_n;
  // Which row of the four 8 x 8 matrices this lane names to ldmatrix.
  const int low = lane % 8, middle = lane / 8 % 2 * 8, high = lane / 16 * 8;
  const int a_line = Problem::kAlongKA ? middle + low : middle, a_k = Problem::kAlongKA ? high : high + low;
  const int b_line = Problem::kAlongKB ? high + low : high, b_k = Problem::kAlongKB ? middle : middle + low;

  float sum[down * across * 4];
#pragma unroll
  for (int i = 0; i < down * across * 4; ++i) sum[i] = 0;

  const auto fill = [&](int half) {
#pragma unroll
    for (int i = 0; i < MoveA::count; ++i) write(shared_a[half].at(MoveA::line(i), MoveA::k(i)), next.a[i]);
#pragma unroll
    for (int i = 0; i < MoveB::count; ++i) write(shared_b[half].at(MoveB::line(i), MoveB::k(i)), next.b[i]);
    __syncthreads();
  };

  next.fetch(tile.begin);
  fill(0);
  int half = 0;
  for (Index k0 = tile.begin; k0 < tile.end; k0 += tile_k, half ^= 1) {
    const bool more = k0 + tile_k < tile.end;
    if (more) next.fetch(k0 + tile_k);  // on its way while the products are made
#pragma unroll
    for (int k = 0; k < tile_k; k += 16) {
      u32 a[down][4], b[across / 2][4];
#pragma unroll
      for (int i = 0; i < down; ++i)
        load_matrices<!Problem::kAlongKA>(a[i], shared_a[half].at(m0 + i * 16 + a_line, k + a_k));
#pragma unroll
      for (int j = 0; j < across / 2; ++j)
        load_matrices<!Problem::kAlongKB>(b[j], shared_b[half].at(n0 + j * 16 + b_line, k + b_k));
#pragma unroll
      for (int i = 0; i < down; ++i)
#pragma unroll
        for (int j = 0; j < across; ++j)
          multiply_add_16x8x16<T>(sum + (i * across + j) * 4, a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
    if (more) fill(half ^ 1);
  }

  if (!add_parts(problem, tile, sum)) return;
#pragma unroll
  for (int i = 0; i < down; ++i)
#pragma unroll
    for (int j = 0; j < across; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Index m = tile.m + m0 + i * 16 + lane / 4 + e / 2 * 8, n = tile.n + n0 + j * 8 + lane % 4 * 2 + e % 2;
        if (m < Problem::kM && n < Problem::kN) problem.finish(tile.group, m, n, sum[(i * across + j) * 4 + e]);
      }
}
