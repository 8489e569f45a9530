// Kernels that reduce: stages over every position and stages over kept positions, in turn.
//
// A block is kKeptThreads x kReducedThreads threads: each row of threads shares kept positions and walks the reduced
// ones together, then merges what it accumulated in a fixed order. Where kept positions are too few to fill the device,
// kSplits blocks share them; the last of them to arrive merges the parts, again in a fixed order, and the full stage
// that needs the result is a launch of its own, spread over the device. So results never depend on timing.
#pragma once

#include "math.cuh"

template <int index>
struct Stage {};

// ---- Accumulators: identity when made, add() one value, merge() what comes after, then the result ----
template <class T>
struct Limits;
template <>
struct Limits<f32> {
  static f32 lowest() { return __int_as_float(0xff800000); }
  static f32 highest() { return __int_as_float(0x7f800000); }
};
template <>
struct Limits<f64> {
  static f64 lowest() { return __longlong_as_double(0xfff0000000000000); }
  static f64 highest() { return __longlong_as_double(0x7ff0000000000000); }
};
template <>
struct Limits<i32> {
  static i32 lowest() { return -2147483647 - 1; }
  static i32 highest() { return 2147483647; }
};

__device__ inline float plus(float a, float b) { return a + b; }
__device__ inline double plus(double a, double b) { return a + b; }
__device__ inline int plus(int a, int b) { return op::add(a, b); }
__device__ inline float times(float a, float b) { return a * b; }
__device__ inline double times(double a, double b) { return a * b; }
__device__ inline int times(int a, int b) { return op::mul(a, b); }

template <class T>
struct Sum {
  T value = 0;
  void add(T x) { value = plus(value, x); }
  void merge(const Sum& next) { value = plus(value, next.value); }
};
template <class T>
struct Prod {
  T value = 1;
  void add(T x) { value = times(value, x); }
  void merge(const Prod& next) { value = times(value, next.value); }
};
template <class T>
struct Max {
  T value = Limits<T>::lowest();
  void add(T x) { value = op::max(value, x); }
  void merge(const Max& next) { add(next.value); }
};
template <class T>
struct Min {
  T value = Limits<T>::highest();
  void add(T x) { value = op::min(value, x); }
  void merge(const Min& next) { add(next.value); }
};
// The position of the best value; of equals the first, and NaN wins.
template <class T, bool largest>
struct Best {
  T best = largest ? Limits<T>::lowest() : Limits<T>::highest();
  i32 value = -1;
  void add(T x, i32 position) {
    const bool same = x == best || (x != x && best != best);
    const bool better = best == best && (x != x || (largest ? x > best : x < best));
    if (value < 0 || better || (same && position < value)) {
      best = x;
      value = position;
    }
  }
  void merge(const Best& next) {
    if (next.value >= 0) add(next.best, next.value);
  }
};
template <class T>
using Argmax = Best<T, true>;
template <class T>
using Argmin = Best<T, false>;

__device__ inline float quotient(float a, float b) { return __fdividef(a, b); }
__device__ inline double quotient(double a, double b) { return a / b; }
__device__ inline float madd(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double madd(double a, double b, double c) { return ::fma(a, b, c); }

// Mean and sum of squared distances from it: Welford's update, Chan's merge.
template <class T>
struct Moments {
  T count = 0, mean = 0, m2 = 0;
  void add(T x) { add(x, count + 1); }
  // The value that makes it `seen`: lanes that see equally many share the division.
  void add(T x, T seen) {
    count = seen;
    const T delta = x - mean;
    mean = madd(delta, quotient(T(1), seen), mean);
    m2 = madd(delta, x - mean, m2);
  }
  // Without a branch: an empty side has count, mean and m2 of 0.
  void merge(const Moments& next) {
    const T total = count + next.count, share = count > 0 ? quotient(next.count, total) : T(1);
    const T delta = next.mean - mean;
    mean = madd(delta, share, mean);
    m2 += madd(delta, delta * (count * share), next.m2);
    count = total;
  }
};

// ---- Threads of a block and how they merge ----
template <class Body, int shares>
struct Team {
  static constexpr int across = Body::kKeptThreads, along = Body::kReducedThreads;
  typename Body::Index kept;  // the group of kept positions this thread works on
  int x, y;                   // place across kept groups, place along reduced ones
  u32 tile;                   // of kept groups: neighbouring blocks take neighbours, so that they share rows
  int share;                  // which of the blocks that share the tile this is
  bool active;                // kept is in range

  Team(const Body& body, u32 block) {
    const int thread = threadIdx.x;
    x = Body::kKeptFirst ? thread % across : thread / along;
    y = Body::kKeptFirst ? thread / across : thread % along;
    const u32 tiles = body.kKept > 0 ? (body.kKept + across - 1) / across : 1;
    tile = block % tiles, share = block / tiles;
    kept = static_cast<typename Body::Index>(tile) * across + x;
    active = kept < body.kKept;
    if (!active) kept = 0;
  }
};

template <class T>
__device__ inline T shuffled(const T& value, int offset) {
  static_assert(sizeof(T) % 4 == 0);
  T other;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
    reinterpret_cast<int*>(&other)[i] = __shfl_xor_sync(0xffffffffu, reinterpret_cast<const int*>(&value)[i], offset);
  return other;
}

// Word by word: a choice between whole structs is one between addresses, which puts both into local memory.
template <class T>
__device__ inline T chosen(bool first, const T& a, const T& b) {
  static_assert(sizeof(T) % 4 == 0);
  T result;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); ++i)
    reinterpret_cast<int*>(&result)[i] =
        first ? reinterpret_cast<const int*>(&a)[i] : reinterpret_cast<const int*>(&b)[i];
  return result;
}

// Merges the accumulators of the threads that share kept positions; all of them get the result.
template <class Body, class Accumulators, int lanes, int shares>
__device__ void combine(const Team<Body, shares>& team, Accumulators (&mine)[lanes]) {
  constexpr int across = Body::kKeptThreads, along = Body::kReducedThreads;
  constexpr int pitch = Body::kKeptFirst ? across : 1;  // from one thread of a row to the next
  constexpr int fit = 32 / pitch, near = fit < 1 ? 1 : along < fit ? along : fit;  // those inside a warp
#pragma unroll
  for (int offset = 1; offset < near; offset *= 2)
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) {
      const Accumulators other = shuffled(mine[lane], offset * pitch);
      const bool upper = team.y & offset;  // the lower thread's part comes first, on both sides alike
      Accumulators both = chosen(upper, other, mine[lane]);
      both.merge(chosen(upper, mine[lane], other));
      mine[lane] = both;
    }
  constexpr int parts = along / near, columns = lanes * across;
  if constexpr (parts > 1) {
    __shared__ u64 memory[(sizeof(Accumulators) * parts * columns + 7) / 8];
    Accumulators* shared = reinterpret_cast<Accumulators*>(memory);
    if (team.y % near == 0)
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane) shared[team.y / near * columns + lane * across + team.x] = mine[lane];
    __syncthreads();
    for (int column = threadIdx.x; column < columns; column += across * along) {
      Accumulators all = shared[column];
      for (int part = 1; part < parts; ++part) all.merge(shared[part * columns + column]);
      shared[column] = all;
    }
    __syncthreads();
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) mine[lane] = shared[lane * across + team.x];
    __syncthreads();
  }
}

// The merged result of all blocks' parts for every thread. Part after part lies there with a column for each lane of
// each thread across. Where columns are many, a thread takes one of them and neighbouring parts, several on their way
// at once; else it takes what falls to its place along, and all merge as in a block.
template <class Body, class Accumulators, int lanes, int shares>
__device__ void merge_parts(const Team<Body, shares>& team, const Accumulators* parts, Accumulators (&mine)[lanes]) {
  constexpr int across = Body::kKeptThreads, along = Body::kReducedThreads;
  constexpr int columns = lanes * across, threads = across * along;
  if constexpr (columns >= 32 && columns <= threads && sizeof(Accumulators) * threads <= 20 * 1024) {
    constexpr int chunks = threads / columns, length = (shares + chunks - 1) / chunks;
    constexpr int room = 96 / sizeof(Accumulators), ahead = room < 1 ? 1 : room;
    __shared__ u64 memory[(sizeof(Accumulators) * chunks * columns + 7) / 8];
    Accumulators* shared = reinterpret_cast<Accumulators*>(memory);
    const int column = threadIdx.x % columns, chunk = threadIdx.x / columns;
    const int end = (chunk + 1) * length < shares ? (chunk + 1) * length : shares;
    Accumulators all;
    for (int first = chunk * length; first < end; first += ahead) {
      Accumulators next[ahead];
#pragma unroll
      for (int i = 0; i < ahead; ++i)
        if (first + i < end) next[i] = parts[static_cast<u64>(first + i) * columns + column];
#pragma unroll
      for (int i = 0; i < ahead; ++i) all.merge(next[i]);
    }
    shared[threadIdx.x] = all;
    __syncthreads();
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) {
      mine[lane] = shared[lane * across + team.x];
      for (int other = 1; other < chunks; ++other) mine[lane].merge(shared[other * columns + lane * across + team.x]);
    }
    __syncthreads();
  } else {
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) mine[lane] = Accumulators();
    for (int share = team.y; share < shares; share += along)
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane)
        mine[lane].merge(parts[(static_cast<u64>(share) * lanes + lane) * across + team.x]);
    combine(team, mine);
  }
}

// Leaves this block's part in memory; the last block of the kept positions goes on with the merged result.
template <class Body, class Accumulators, int lanes, int shares>
__device__ bool finish_last(const Body& body, const Team<Body, shares>& team, Accumulators (&mine)[lanes]) {
  constexpr int across = Body::kKeptThreads, along = Body::kReducedThreads;
  Accumulators* parts = reinterpret_cast<Accumulators*>(body.parts);
  const u32 tile = team.tile;
  if (team.y == 0)
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane)
      parts[((static_cast<u64>(tile) * shares + team.share) * lanes + lane) * across + team.x] = mine[lane];
  __threadfence();
  __syncthreads();
  __shared__ bool last;
  if (threadIdx.x == 0) last = atomicAdd(&body.arrived[tile], 1u) == shares - 1;
  __syncthreads();
  if (!last) return false;
  __threadfence();
  merge_parts(team, parts + static_cast<u64>(tile) * shares * lanes * across, mine);
  if (threadIdx.x == 0) body.arrived[tile] = 0;  // ready for the next run
  return true;
}

// ---- Stages ----
template <int s, class Body, class Carried, int lanes, class Accumulators, int shares>
__device__ void run_full(const Body& body, const Team<Body, shares>& team, Carried (&carried)[lanes],
                         Accumulators (&accumulators)[lanes]) {
  using Index = typename Body::Index;
  constexpr int unroll = Body::unroll(s);
  constexpr Index step = static_cast<Index>(Body::kReducedThreads) * shares;
  const Index size = body.kReduced;
  if (!team.active) return;
  decltype(Body::fixed_of(Stage<s>{})) fixed;
  body.load(Stage<s>{}, team.kept, fixed);
  using Loads = decltype(Body::loads_of(Stage<s>{}));
  const auto fetch = [&](Index first, Loads(&loads)[unroll]) {
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (first + i * step < size) body.load(Stage<s>{}, team.kept, first + i * step, loads[i]);
  };
  int seen = 0;
  Loads loads[unroll];
  Index first = static_cast<Index>(team.share) * Body::kReducedThreads + team.y;
  fetch(first, loads);
  while (first < size) {
    const Index second = first + step * unroll;
    Loads next[unroll];
    if constexpr (Body::kAhead) fetch(second, next);  // on their way while the others are used
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (first + i * step < size)
        body.run(Stage<s>{}, team.kept, first + i * step, fixed, loads[i], carried, accumulators, ++seen);
    first = second;
    if constexpr (Body::kAhead) {
#pragma unroll
      for (int i = 0; i < unroll; ++i) loads[i] = next[i];
    } else {
      fetch(first, loads);
    }
  }
}

// What is carried from one launch to the next lies word by word, the lanes of a thread side by side.
template <class Body, class Carried, int lanes, int shares>
__device__ void store_carried(const Body& body, const Team<Body, shares>& team, const Carried (&carried)[lanes]) {
  constexpr int words = sizeof(Carried) / 4;
#pragma unroll
  for (int word = 0; word < words; ++word) {
    Vector<u32, lanes> side_by_side;
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane)
      side_by_side.lane[lane] = reinterpret_cast<const u32*>(&carried[lane])[word];
    write(body.kept_values + (static_cast<u64>(team.kept) * words + word) * lanes, side_by_side);
  }
}
template <class Body, class Carried, int lanes, int shares>
__device__ void load_carried(const Body& body, const Team<Body, shares>& team, Carried (&carried)[lanes]) {
  constexpr int words = sizeof(Carried) / 4;
  if (!team.active) return;
#pragma unroll
  for (int word = 0; word < words; ++word) {
    const auto side_by_side =
        read_written<lanes>(body.kept_values + (static_cast<u64>(team.kept) * words + word) * lanes);
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) reinterpret_cast<u32*>(&carried[lane])[word] = side_by_side.lane[lane];
  }
}

// Runs stages [s, last). `leads`: this thread stores for its kept positions.
template <int s, int last, class Body, class Carried, int lanes, int shares>
__device__ void run_stages(const Body& body, const Team<Body, shares>& team, Carried (&carried)[lanes], bool leads) {
  if constexpr (s == last) {
    if constexpr (last < Body::kStages) {
      if (leads) store_carried(body, team, carried);
    }
  } else if constexpr (Body::is_full(s)) {
    decltype(Body::accumulators_of(Stage<s>{})) accumulators[lanes];
    run_full<s>(body, team, carried, accumulators);
    if constexpr (Body::reduces(s)) {
      combine(team, accumulators);
      if constexpr (shares > 1) {
        if (!finish_last(body, team, accumulators)) return;
        leads = team.active && team.y == 0;
      }
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane) body.finish(Stage<s>{}, accumulators[lane], carried[lane]);
    }
    run_stages<s + 1, last>(body, team, carried, leads);
  } else {
    if (team.active) body.run(Stage<s>{}, team.kept, carried, leads);
    run_stages<s + 1, last>(body, team, carried, leads);
  }
}

// One launch: stages [first, last). What earlier launches carried is in memory.
template <int first, int last, class Body>
__device__ void reduce(const Body& body, u32 block) {
  const Team<Body, Body::kSplits> team(body, block);
  typename Body::Carried carried[Body::kKeptLanes];
  if constexpr (first > 0) load_carried(body, team, carried);
  run_stages<first, last>(body, team, carried, team.active && team.y == 0 && team.share == 0);
}

// One launch: full stage s, which only stores. kPieces blocks share kept positions, each a piece of neighbouring
// reduced ones, and they go backwards: what the launch before read last is still in the cache.
template <int s, class Body>
__device__ void spread(const Body& body, u32 block) {
  using Index = typename Body::Index;
  constexpr int unroll = Body::unroll(s), along = Body::kReducedThreads;
  const Index size = body.kReduced;
  const Team<Body, Body::kPieces> team(body, block);
  if (!team.active) return;
  typename Body::Carried carried[Body::kKeptLanes];
  load_carried(body, team, carried);
  decltype(Body::fixed_of(Stage<s>{})) fixed;
  body.load(Stage<s>{}, team.kept, fixed);
  decltype(Body::accumulators_of(Stage<s>{})) none[Body::kKeptLanes];
  const Index first = static_cast<Index>(Body::kPieces - 1 - team.share) * (along * unroll) + team.y;
  decltype(Body::loads_of(Stage<s>{})) loads[unroll];
#pragma unroll
  for (int i = 0; i < unroll; ++i)
    if (first + i * along < size) body.load(Stage<s>{}, team.kept, first + i * along, loads[i]);
#pragma unroll
  for (int i = 0; i < unroll; ++i)
    if (first + i * along < size) body.run(Stage<s>{}, team.kept, first + i * along, fixed, loads[i], carried, none, 0);
}
