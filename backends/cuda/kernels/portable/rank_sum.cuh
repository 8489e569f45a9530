// Sums over ranks: arrays are packed into one piece of memory, the parts that ranks sent are added by a tree, and the
// sums are unpacked. ELEMENT and RANKS are defined before; body.part is the number of elements of a rank's part,
// body.rank this rank.
#pragma once

#include "types.cuh"

constexpr int kGroup = 8;  // neighbours that a thread moves: one to four pieces of 16 bytes

struct Group {
  ELEMENT x[kGroup];
};
struct alignas(16) Words {
  u32 x[4];
};
constexpr int kWords = sizeof(Group) / sizeof(Words);

// Neighbours from `first` on, of which `count` are there; the others are 0.
__device__ inline Group load(const ELEMENT* from, i64 first, i64 count) {
  union {
    Group group;
    Words words[kWords];
  };
  from += first;
  if (count >= kGroup && reinterpret_cast<u64>(from) % sizeof(Words) == 0) {
    for (int i = 0; i < kWords; ++i) words[i] = reinterpret_cast<const Words*>(from)[i];
  } else {
    for (int i = 0; i < kGroup; ++i) group.x[i] = i < count ? from[i] : ELEMENT{};
  }
  return group;
}

__device__ inline void store(ELEMENT* to, i64 first, i64 count, const Group& from) {
  union {
    Group group;
    Words words[kWords];
  };
  group = from;
  to += first;
  if (count >= kGroup && reinterpret_cast<u64>(to) % sizeof(Words) == 0) {
    for (int i = 0; i < kWords; ++i) reinterpret_cast<Words*>(to)[i] = words[i];
  } else {
    for (int i = 0; i < kGroup; ++i)
      if (i < count) to[i] = group.x[i];
  }
}

// Halves are added in f32. Neighbours first: the order depends on the number of ranks alone.
__device__ inline Group tree(const ELEMENT* const (&parts)[RANKS], i64 first) {
  using Sum = decltype(widen(ELEMENT{}));
  Sum sums[RANKS][kGroup];
  for (int rank = 0; rank < RANKS; ++rank) {
    const Group group = load(parts[rank], first, kGroup);
    for (int i = 0; i < kGroup; ++i) sums[rank][i] = widen(group.x[i]);
  }
#pragma unroll
  for (int step = 1; step < RANKS; step *= 2)
#pragma unroll
    for (int rank = 0; rank + step < RANKS; rank += 2 * step)
      for (int i = 0; i < kGroup; ++i) sums[rank][i] += sums[rank + step][i];
  Group total;
  for (int i = 0; i < kGroup; ++i) total.x[i] = convert<ELEMENT>(sums[0][i]);
  return total;
}

// Calls `move(first, count)` for the groups of the block's array: their place in it, and the elements from there on.
template <class Move>
__device__ inline void each_group(const Body& body, const Move& move) {
  const i64 count = body.table[2 * blockIdx.y + 1], stride = static_cast<i64>(gridDim.x) * blockDim.x * kGroup;
  for (i64 i = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kGroup; i < count; i += stride)
    move(i, count - i);
}

// A block's array, and where it begins in the packed memory.
__device__ inline ELEMENT* array_of(const Body& body) { return body.arrays[blockIdx.y]; }
__device__ inline i64 place_of(const Body& body) { return body.table[2 * blockIdx.y]; }

__device__ inline void pack(const Body& body) {
  each_group(body,
             [&](i64 i, i64 count) { store(body.packed, place_of(body) + i, kGroup, load(array_of(body), i, count)); });
}

__device__ inline void unpack(const Body& body) {
  each_group(body,
             [&](i64 i, i64 count) { store(array_of(body), i, count, load(body.packed, place_of(body) + i, kGroup)); });
}

// Every rank's arrays, packed, are side by side.
__device__ inline void add_and_unpack(const Body& body) {
  const ELEMENT* parts[RANKS];
  for (int rank = 0; rank < RANKS; ++rank) parts[rank] = body.packed + rank * body.part;
  each_group(body, [&](i64 i, i64 count) { store(array_of(body), i, count, tree(parts, place_of(body) + i)); });
}

// The parts for this rank that the others sent are side by side; the sum takes the place of its own among its packed
// arrays.
__device__ inline void add(const Body& body) {
  const ELEMENT* parts[RANKS];
  for (int rank = 0; rank < RANKS; ++rank)
    parts[rank] = (rank == body.rank ? body.packed : body.received) + rank * body.part;
  const i64 stride = static_cast<i64>(gridDim.x) * blockDim.x * kGroup;
  for (i64 i = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kGroup; i < body.part; i += stride)
    store(body.packed + body.rank * body.part, i, kGroup, tree(parts, i));
}
