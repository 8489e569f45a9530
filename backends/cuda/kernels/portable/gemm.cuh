// Portable matrix products: D[m, n] = sum over k of A[m, k] B[k, n] in every group, wherever A and B are in memory.
//
// Problem (operands.cuh) maps operands to memory: row, column, term_a and term_b precompute what depends on a line or
// on k alone; find_a and find_b give the index of a piece of kVectorA or kVectorB elements, or return false if the
// piece is outside the operand and counts as 0; finish(place(group, m, n), values) runs the epilogue for kLanes
// neighbours (here 1), if that element of the result exists. A block computes a tile of kTileM x kTileN, a thread
// kThreadM x kThreadN of it. If there are few tiles, kSplits blocks share the sum over k (split-K), and the last block
// to arrive adds the partial sums in order.
#pragma once

#include "math.cuh"

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ inline int multiply_add(int a, int b, int c) { return op::add(op::mul(a, b), c); }

// The work of a block: its tile, and its share [begin, end) of the sum.
template <class Problem>
struct Tile {
  using Index = typename Problem::Index;
  static constexpr Index across = (Problem::kN + Problem::kTileN - 1) / Problem::kTileN;
  static constexpr Index down = (Problem::kM + Problem::kTileM - 1) / Problem::kTileM;
  int split, group;
  u32 number;
  Index m, n, begin, end;

  Tile() {
    number = blockIdx.x / Problem::kSplits;
    split = blockIdx.x % Problem::kSplits;
    n = static_cast<Index>(number % across) * Problem::kTileN;
    m = static_cast<Index>(number / across % down) * Problem::kTileM;
    group = number / across / down;
    constexpr Index steps = (Problem::kK + Problem::kTileK - 1) / Problem::kTileK;
    constexpr Index share =
        Problem::kSumsEvery > 0 ? Problem::kShare : (steps + Problem::kSplits - 1) / Problem::kSplits * Problem::kTileK;
    begin = split * share;
    end = begin + share < Problem::kK ? begin + share : Problem::kK;
  }
};

// Whether this block is the last of `count` to reach this call.
__device__ inline bool arrives_last(u32* arrived, u32 count) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1u) == count - 1;
    if (last) *arrived = 0;  // ready for the next run
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// Sums that a thread rounds on the way (Problem::kSumsEvery): those of a group of terms are merged into them.
template <class Problem, class T, int count>
struct RoundedSums {
  T total[count];

  RoundedSums() {
#pragma unroll
    for (int i = 0; i < count; ++i) total[i] = 0;
  }
  void merge(T (&sums)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) total[i] = Problem::merged(total[i], sums[i]), sums[i] = 0;
  }
  // Terms beyond the last whole group, if any, are a last one: a sum of none changes nothing. -0 becomes 0.
  void finish(T (&sums)[count]) {
    merge(sums);
#pragma unroll
    for (int i = 0; i < count; ++i) sums[i] = total[i] + T(0);
  }
};

// values = the sum of `parts` parts, `pitch` elements apart, in order. Loads several parts at once.
template <class Problem, class T, int count>
__device__ inline void sum_parts(const T* from, int parts, u64 pitch, int threads, T (&values)[count]) {
  constexpr int ahead = count <= 16 ? 4 : count <= 32 ? 2 : 1;
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = 0;
  for (int first = 0; first < parts; first += ahead) {
    T next[ahead][count];
#pragma unroll
    for (int j = 0; j < ahead; ++j)
#pragma unroll
      for (int i = 0; i < count; ++i) next[j][i] = first + j < parts ? from[(first + j) * pitch + i * threads] : T(0);
#pragma unroll
    for (int j = 0; j < ahead; ++j)
#pragma unroll
      for (int i = 0; i < count; ++i)
        if constexpr (Problem::kSumsEvery > 0)
          values[i] = Problem::merged(values[i], next[j][i]) + T(0);
        else
          values[i] += next[j][i];
  }
}

// Adds the parts of all blocks that share a tile, in order; `values` are this thread's. If there are more than
// kSplitGroup parts, the last block of every kSplitGroup neighbours adds theirs, and the last of these blocks adds the
// results. Returns true in the one block that then has the whole sum.
template <class Problem, class T, int count>
__device__ bool add_parts(const Problem& problem, const Tile<Problem>& tile, T (&values)[count]) {
  constexpr int threads = Problem::kThreads, splits = Problem::kSplits, group = Problem::kSplitGroup;
  if constexpr (splits == 1) {
    return true;
  } else {
    constexpr u64 pitch = static_cast<u64>(count) * threads;
    constexpr int groups = (splits + group - 1) / group;
    T* parts = reinterpret_cast<T*>(problem.parts()) + static_cast<u64>(tile.number) * splits * pitch + threadIdx.x;
    u32* arrived = problem.arrived() + static_cast<u64>(tile.number) * (groups + 1);
    const auto keep = [&](int part) {
#pragma unroll
      for (int i = 0; i < count; ++i) parts[part * pitch + i * threads] = values[i];
    };
    keep(tile.split);
    const int mine = tile.split / group, first = mine * group,
              members = splits - first < group ? splits - first : group;
    if (!arrives_last(arrived + mine, members)) return false;
    sum_parts<Problem>(parts + first * pitch, members, pitch, threads, values);
    if constexpr (groups > 1) {
      keep(first);
      if (!arrives_last(arrived + groups, groups)) return false;
      sum_parts<Problem>(parts, groups, group * pitch, threads, values);
    }
    return true;
  }
}

// How a block's threads copy a tile of one operand, `extent` lines by `depth` values of k, to shared memory: in pieces
// of `vector` neighbours along k (`along_k`) or across the lines; neighbouring threads take neighbouring pieces.
template <int extent, int depth, int threads, bool along_k, int vector>
struct Mover {
  static constexpr int across = (along_k ? depth : extent) / vector;  // pieces side by side
  static constexpr int count = extent * depth / vector / threads;     // pieces per thread
  static constexpr int step = threads / across;                       // from one piece of a thread to its next
  static constexpr int lines = along_k ? count : 1;                   // lines in which a thread's pieces begin
  static_assert(count * threads * vector == extent * depth && threads % across == 0);
  static int line(int i) { return along_k ? threadIdx.x / across + i * step : threadIdx.x % across * vector; }
  static int k(int i) { return along_k ? threadIdx.x % across * vector : threadIdx.x / across + i * step; }
};

// The elements [low, high) of a piece that belong to the operand, if its rows begin and end at any address.
struct Span {
  int low = 0, high = 8;
  __device__ bool any() const { return low < high && low < 8 && high > 0; }
};

// Starts loading a piece of an operand. A ragged piece may be at any address; only its elements in `span` count.
template <int count, bool ragged, class T>
__device__ inline auto piece(const T* from, bool inside, const Span& span) {
  if constexpr (ragged)
    return read_between(from, span.low, inside ? span.high : span.low);
  else
    return inside ? read<count>(from) : filled<count>(T());
}

// What a Feed asks a Problem about its first operand, and about its second.
template <class Problem>
struct FirstOperand {
  using T = typename Problem::A;
  using Index = typename Problem::Index;
  static constexpr int extent = Problem::kTileM, vector = Problem::kVectorA;
  static constexpr bool along_k = Problem::kAlongKA, ragged = Problem::kRaggedA;
  static const T* memory(const Problem& p) { return p.first(); }
  static auto line(const Problem& p, const Tile<Problem>& tile, int at) { return p.row(tile.group, tile.m + at); }
  static auto term(const Problem& p, Index first, int offset) { return p.term_a(first, offset); }
  template <class Line, class Term>
  static bool find(const Problem& p, const Line& line, const Term& term, Index& index, Span& span) {
    return p.find_a(line, term, index, span);
  }
};
template <class Problem>
struct SecondOperand {
  using T = typename Problem::B;
  using Index = typename Problem::Index;
  static constexpr int extent = Problem::kTileN, vector = Problem::kVectorB;
  static constexpr bool along_k = Problem::kAlongKB, ragged = Problem::kRaggedB;
  static const T* memory(const Problem& p) { return p.second(); }
  static auto line(const Problem& p, const Tile<Problem>& tile, int at) { return p.column(tile.group, tile.n + at); }
  static auto term(const Problem& p, Index first, int offset) { return p.term_b(first, offset); }
  template <class Line, class Term>
  static bool find(const Problem& p, const Line& line, const Term& term, Index& index, Span& span) {
    return p.find_b(line, term, index, span);
  }
};

// A thread's pieces of one operand, step by step along k.
template <class Problem, template <class> class Which>
struct Feed {
  using Operand = Which<Problem>;
  using Index = typename Problem::Index;
  using T = typename Operand::T;
  static constexpr int depth = Problem::kTileK, vector = Operand::vector;
  static constexpr bool along_k = Operand::along_k, ragged = Operand::ragged;
  static constexpr bool whole = Problem::kK % depth == 0;  // so is every step that begins before `end`
  using Move = Mover<Operand::extent, depth, Problem::kThreads, along_k, vector>;
  const Problem& problem;
  const Index end;
  decltype(Operand::line(problem, Tile<Problem>(), 0)) lines[Move::lines];

  Feed(const Problem& p, const Tile<Problem>& tile) : problem(p), end(tile.end) {
#pragma unroll
    for (int i = 0; i < Move::lines; ++i) lines[i] = Operand::line(p, tile, Move::line(i));
  }
  // Calls act(i, address, inside, span) for each piece of the step that begins at k0.
  template <class Act>
  void each(Index k0, const Act& act) const {
    auto term = Operand::term(problem, k0, Move::k(0));
#pragma unroll
    for (int i = 0; i < Move::count; ++i) {
      if (!along_k && i > 0) term = Operand::term(problem, k0, Move::k(i));
      Index index = 0;
      Span span;
      const bool in_sum = whole || k0 + Move::k(i) < end;
      const bool inside = Operand::find(problem, lines[along_k ? i : 0], term, index, span) && in_sum;
      act(i, Operand::memory(problem) + index, inside, span);
    }
  }
};

// The same, loaded into registers.
template <class Problem, template <class> class Which>
struct LoadingFeed : Feed<Problem, Which> {
  using Base = Feed<Problem, Which>;
  using typename Base::Move, typename Base::T;
  decltype(piece<Base::vector, Base::ragged>(static_cast<const T*>(nullptr), true, Span())) pieces[Move::count];

  using Base::Base;
  void fetch(typename Base::Index k0) {
    this->each(k0, [&](int i, const T* from, bool inside, const Span& span) {
      pieces[i] = piece<Base::vector, Base::ragged>(from, inside, span);
    });
  }
  // Waits for them, and calls act(line, k, vector), where they belong in the tile.
  template <class Act>
  void for_each(const Act& act) const {
#pragma unroll
    for (int i = 0; i < Move::count; ++i) act(Move::line(i), Move::k(i), arrived(pieces[i]));
  }
};

template <class Problem>
__device__ void gemm(const Problem& problem) {
  using Index = typename Problem::Index;
  using T = typename Problem::Accumulate;
  constexpr int tile_m = Problem::kTileM, tile_n = Problem::kTileN, tile_k = Problem::kTileK;
  constexpr int thread_m = Problem::kThreadM, thread_n = Problem::kThreadN, threads = Problem::kThreads;
  static_assert(threads == tile_m / thread_m * (tile_n / thread_n) && thread_m % 4 == 0 && thread_n % 4 == 0);
  // Double buffering: one tile is filled while the other is used.
  __shared__ alignas(16) T shared_a[2][tile_k][tile_m + 4];
  __shared__ alignas(16) T shared_b[2][tile_k][tile_n + 4];

  const Tile<Problem> tile;
  LoadingFeed<Problem, FirstOperand> next_a(problem, tile);
  LoadingFeed<Problem, SecondOperand> next_b(problem, tile);

  const int tx = threadIdx.x % (tile_n / thread_n), ty = threadIdx.x / (tile_n / thread_n);
  constexpr int far_m = tile_m / (thread_m / 4), far_n = tile_n / (thread_n / 4);  // between a thread's quads
  T sum[thread_m * thread_n];
#pragma unroll
  for (int i = 0; i < thread_m * thread_n; ++i) sum[i] = 0;

  constexpr bool rounds = Problem::kSumsEvery > 0;
  RoundedSums<Problem, T, rounds ? thread_m * thread_n : 1> rounded;

  const auto fetch = [&](Index k0) { next_a.fetch(k0), next_b.fetch(k0); };
  const auto fill = [&](int half) {
    next_a.for_each([&](int line, int k, const auto& values) {
#pragma unroll
      for (int e = 0; e < Problem::kVectorA; ++e)
        shared_a[half][k + (Problem::kAlongKA ? e : 0)][line + (Problem::kAlongKA ? 0 : e)] =
            convert<T>(values.lane[e]);
    });
    next_b.for_each([&](int line, int k, const auto& values) {
#pragma unroll
      for (int e = 0; e < Problem::kVectorB; ++e)
        shared_b[half][k + (Problem::kAlongKB ? e : 0)][line + (Problem::kAlongKB ? 0 : e)] =
            convert<T>(values.lane[e]);
    });
    __syncthreads();
  };
  if (tile.begin < tile.end) fetch(tile.begin);
  fill(0);
  int half = 0;
  for (Index k0 = tile.begin; k0 < tile.end; k0 += tile_k, half ^= 1) {
    const bool more = k0 + tile_k < tile.end;
    if (more) fetch(k0 + tile_k);  // in flight while the products are computed
#pragma unroll
    for (int k = 0; k < tile_k; ++k) {
      T a[thread_m], b[thread_n];
#pragma unroll
      for (int i = 0; i < thread_m; ++i) a[i] = shared_a[half][k][i / 4 * far_m + ty * 4 + i % 4];
#pragma unroll
      for (int j = 0; j < thread_n; ++j) b[j] = shared_b[half][k][j / 4 * far_n + tx * 4 + j % 4];
#pragma unroll
      for (int i = 0; i < thread_m; ++i)
#pragma unroll
        for (int j = 0; j < thread_n; ++j) sum[i * thread_n + j] = multiply_add(a[i], b[j], sum[i * thread_n + j]);
    }
    if constexpr (rounds)
      if ((k0 + tile_k) % Problem::kSumsEvery == 0) rounded.merge(sum);
    if (more) fill(half ^ 1);
  }
  if constexpr (rounds) rounded.finish(sum);

  if (!add_parts(problem, tile, sum)) return;
#pragma unroll
  for (int i = 0; i < thread_m; ++i)
#pragma unroll
    for (int j = 0; j < thread_n; ++j) {
      const Index m = tile.m + i / 4 * far_m + ty * 4 + i % 4, n = tile.n + j / 4 * far_n + tx * 4 + j % 4;
      const T values[1] = {sum[i * thread_n + j]};
      const auto place = problem.place(tile.group, m, n);
      if (place.inside) problem.finish(place, values);
    }
}
