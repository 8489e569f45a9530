// Reductions: alternating stages over every position and over kept positions.
//
// A block has kKeptThreads x kReducedThreads threads. The threads of a row share kept positions: together they iterate
// over the reduced ones, then merge their accumulators in a fixed order. If there are too few kept positions to fill
// the device, kSplits blocks share each of them. Then there are two ways to go on, and in both the order of merging is
// fixed, so results do not depend on timing: the last block to arrive merges all parts, and the full stage that needs
// the result is a separate launch, spread over the device; or, if all blocks are resident, they synchronise behind each
// reduction: each waits for the others that share its positions, merges all parts itself, and continues with its own
// share, whose values are still in the cache. If the program that computed the values has already stored parts of a
// stage's reductions, the stage only merges these: in a launch before it, or in each block if it needs many numbers per
// kept position.
#pragma once

#include "accumulators.cuh"

template <int index>
struct Stage {};

// ---- Merging across the threads of a block ----
template <class Body, int shares>
struct Team {
  static constexpr int across = Body::kKeptThreads, along = Body::kReducedThreads;
  typename Body::Index kept;  // the group of kept positions this thread works on
  int x, y;                   // this thread's index across kept groups and along reduced positions
  u32 tile;                   // the block's tile of kept groups; neighbouring blocks take neighbouring tiles
  int share;                  // this block's index among those that share the tile
  bool active;                // whether `kept` is in range

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

// Merges the accumulators of the threads that share kept positions; all of them get the result.
template <class Body, class Accumulators, int lanes, int shares>
__device__ void combine(const Team<Body, shares>& team, Accumulators (&mine)[lanes]) {
  constexpr int across = Body::kKeptThreads, along = Body::kReducedThreads;
  constexpr int pitch = Body::kKeptFirst ? across : 1;  // from one thread of a row to the next
  constexpr int fit = 32 / pitch, near = fit < 1 ? 1 : along < fit ? along : fit;  // threads of a row in one warp
#pragma unroll
  for (int offset = 1; offset < near; offset *= 2)
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) {
      const Accumulators other = shuffled(mine[lane], offset * pitch);
      const bool upper = team.y & offset;  // both threads merge in the same order: the lower one's part first
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

// Merges the parts of all blocks; every thread gets the result. Each part has one column per lane and thread across. If
// there are many columns, a thread merges neighbouring parts of one column and loads several at once. Otherwise a
// thread merges every kReducedThreads-th part from its own index on, and the threads then merge as in a block.
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

// Blocks that meet again leave their parts at two places in turn.
template <class Body>
__device__ constexpr int reductions_before(int stage) {
  int count = 0;
  for (int s = 0; s < stage; ++s) count += Body::reduces(s);
  return count;
}

// Stores this block's part of stage s and returns the address of the first part of its kept positions.
template <int s, class Body, class Accumulators, int lanes, int shares>
__device__ const Accumulators* leave_part(const Body& body, const Team<Body, shares>& team,
                                          const Accumulators (&mine)[lanes]) {
  constexpr int columns = lanes * Body::kKeptThreads;
  char* const from = body.parts + reductions_before<Body>(s) % 2 * Body::kNextParts;
  Accumulators* parts = reinterpret_cast<Accumulators*>(from) + static_cast<u64>(team.tile) * shares * columns;
  if (team.y == 0)
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane)
      parts[team.share * columns + lane * Body::kKeptThreads + team.x] = mine[lane];
  __threadfence();
  __syncthreads();
  return parts;
}

// Only the last block to arrive gets the merged result; returns false in the others, which end.
template <int s, class Body, class Accumulators, int lanes, int shares>
__device__ bool finish_last(const Body& body, const Team<Body, shares>& team, Accumulators (&mine)[lanes]) {
  const Accumulators* parts = leave_part<s>(body, team, mine);
  __shared__ bool last;
  if (threadIdx.x == 0) last = atomicAdd(&body.arrived[team.tile], 1u) == shares - 1;
  __syncthreads();
  if (!last) return false;
  __threadfence();
  merge_parts(team, parts, mine);
  if (threadIdx.x == 0) body.arrived[team.tile] = 0;  // ready for the next run
  return true;
}

// All blocks that share the kept positions wait for each other and get the merged result. Together they add 2^31 to the
// counter: that flips its highest bit, which ends the wait, and leaves the other bits ready for the next time.
template <int s, class Body, class Accumulators, int lanes, int shares>
__device__ void finish_all(const Body& body, const Team<Body, shares>& team, Accumulators (&mine)[lanes]) {
  const Accumulators* parts = leave_part<s>(body, team, mine);
  if (threadIdx.x == 0) {
    u32* arrived = &body.arrived[team.tile];
    const u32 before = atomicAdd(arrived, team.share == 0 ? 0x80000000u - (shares - 1) : 1u);
    u32 now;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
    } while (((before ^ now) & 0x80000000u) == 0);
  }
  __syncthreads();
  merge_parts(team, parts, mine);
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
  Index first = static_cast<Index>(team.share) * Body::kReducedThreads + team.y;
  decltype(Body::fixed_of(Stage<s>{})) fixed;
  body.load(Stage<s>{}, team.kept, first, fixed);
  using Loads = decltype(Body::loads_of(Stage<s>{}));
  const auto fetch = [&](Index first, Loads(&loads)[unroll]) {
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (first + i * step < size) body.load(Stage<s>{}, team.kept, first + i * step, loads[i]);
  };
  int seen = 0;
  Loads loads[unroll];
  fetch(first, loads);
  while (first < size) {
    const Index second = first + step * unroll;
    Loads next[unroll];
    if constexpr (Body::kAhead) fetch(second, next);  // in flight while the current ones are used
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

// Runs a full stage that only stores, from this block's last positions to its first, since the values that the stage
// before read last are still in the cache.
template <int s, class Body, class Carried, int lanes, class Accumulators, int shares>
__device__ void run_back(const Body& body, const Team<Body, shares>& team, Carried (&carried)[lanes],
                         Accumulators (&none)[lanes]) {
  using Index = typename Body::Index;
  constexpr int unroll = Body::unroll(s);
  constexpr Index step = static_cast<Index>(Body::kReducedThreads) * shares;
  const Index size = body.kReduced, start = static_cast<Index>(team.share) * Body::kReducedThreads + team.y;
  if (!team.active || start >= size) return;
  decltype(Body::fixed_of(Stage<s>{})) fixed;
  body.load(Stage<s>{}, team.kept, start, fixed);
  for (Index first = start + (size - 1 - start) / (step * unroll) * (step * unroll); first >= 0;
       first -= step * unroll) {
    decltype(Body::loads_of(Stage<s>{})) loads[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (first + i * step < size) body.load(Stage<s>{}, team.kept, first + i * step, loads[i]);
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      if (first + i * step < size) body.run(Stage<s>{}, team.kept, first + i * step, fixed, loads[i], carried, none, 0);
  }
}

// Merges the parts of a stage's reductions that another program has stored. Each part covers all kept positions.
template <int s, class Body, class Accumulators, int lanes, int shares>
__device__ void merge_left(const Body& body, const Team<Body, shares>& team, Accumulators (&mine)[lanes]) {
  const int count = body.left_parts(Stage<s>{}), columns = static_cast<int>(body.kKept) * lanes;
  const Accumulators* parts = reinterpret_cast<const Accumulators*>(body.left(Stage<s>{})) + team.kept * lanes;
#pragma unroll 4
  for (int part = team.y; part < count; part += Body::kReducedThreads)
#pragma unroll
    for (int lane = 0; lane < lanes; ++lane) mine[lane].merge(parts[part * columns + lane]);
  combine(team, mine);
}

// Values carried from one launch to the next are stored word by word, with the lanes of a thread side by side.
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

// Runs stages [s, last). `leads`: this thread is the one that stores for its kept positions.
template <int s, int last, class Body, class Carried, int lanes, int shares>
__device__ void run_stages(const Body& body, const Team<Body, shares>& team, Carried (&carried)[lanes], bool leads) {
  if constexpr (s == last) {
    if constexpr (last < Body::kStages) {
      if (leads) store_carried(body, team, carried);
    }
  } else if constexpr (Body::is_full(s)) {
    decltype(Body::accumulators_of(Stage<s>{})) accumulators[lanes];
    if constexpr (Body::merges(s)) {
      merge_left<s>(body, team, accumulators);
    } else if constexpr (Body::kEndsBack && s + 1 == Body::kStages) {
      run_back<s>(body, team, carried, accumulators);
    } else {
      run_full<s>(body, team, carried, accumulators);
      if constexpr (Body::reduces(s)) combine(team, accumulators);
      if constexpr (Body::reduces(s) && shares > 1) {
        if constexpr (Body::kMeets) {
          finish_all<s>(body, team, accumulators);
        } else {
          if (!finish_last<s>(body, team, accumulators)) return;
          leads = team.active && team.y == 0;
        }
      }
    }
    if constexpr (Body::reduces(s))
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane) body.finish(Stage<s>{}, accumulators[lane], carried[lane]);
    run_stages<s + 1, last>(body, team, carried, leads);
  } else {
    if (team.active) body.run(Stage<s>{}, team.kept, carried, leads);
    run_stages<s + 1, last>(body, team, carried, leads);
  }
}

// One launch: runs stages [first, last). Values carried from earlier launches are in memory.
template <int first, int last, class Body>
__device__ void reduce(const Body& body, u32 block) {
  const Team<Body, Body::kSplits> team(body, block);
  typename Body::Carried carried[Body::kKeptLanes];
  if constexpr (first > 0) load_carried(body, team, carried);
  run_stages<first, last>(body, team, carried, team.active && team.y == 0 && team.share == 0);
}

// One launch: runs full stage s, which only stores. kPieces blocks share kept positions; each takes neighbouring
// reduced ones. They go backwards, since the values that the launch before read last are still in the cache.
template <int s, class Body>
__device__ void spread(const Body& body, u32 block) {
  using Index = typename Body::Index;
  constexpr int unroll = Body::unroll(s), along = Body::kReducedThreads;
  const Index size = body.kReduced;
  const Team<Body, Body::kPieces> team(body, block);
  if (!team.active) return;
  typename Body::Carried carried[Body::kKeptLanes];
  load_carried(body, team, carried);
  const Index first = static_cast<Index>(Body::kPieces - 1 - team.share) * (along * unroll) + team.y;
  decltype(Body::fixed_of(Stage<s>{})) fixed;
  body.load(Stage<s>{}, team.kept, first, fixed);
  decltype(Body::accumulators_of(Stage<s>{})) none[Body::kKeptLanes];
  decltype(Body::loads_of(Stage<s>{})) loads[unroll];
#pragma unroll
  for (int i = 0; i < unroll; ++i)
    if (first + i * along < size) body.load(Stage<s>{}, team.kept, first + i * along, loads[i]);
#pragma unroll
  for (int i = 0; i < unroll; ++i)
    if (first + i * along < size) body.run(Stage<s>{}, team.kept, first + i * along, fixed, loads[i], carried, none, 0);
}
