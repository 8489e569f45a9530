// Sorts rows: tiles in shared memory by Batcher's bitonic network; where a row has several, they are merged pairwise,
// each element finding its place by binary search. Elements are compared as keys, equal ones by position, so the order
// is stable whatever the network does.
//
// Body, beside what rows.cuh reads: Value, the operand's compute type; Key, u32 or u64; kDescending; kRows; kWanted,
// elements of a row of the result; kTile, kTiles, kThreads; with several tiles Key *keys0, *keys1 and u32 *positions0,
// *positions1, kRows * kLength each: pass p of the merges reads buffer p % 2 and writes the other.
#pragma once

#include "rows.cuh"

// A number as an unsigned one that is larger where the number is: NaN largest of all, -0 equal to 0.
__device__ inline u32 key_of(i32 x) { return static_cast<u32>(x) ^ 0x80000000u; }
__device__ inline u64 key_of(i64 x) { return static_cast<u64>(x) ^ 0x8000000000000000ull; }
__device__ inline u32 key_of(f32 x) {
  if (x != x) return 0xffffffffu;
  const u32 bits = x == 0 ? 0 : static_cast<u32>(__float_as_int(x));
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ inline u64 key_of(f64 x) {
  if (x != x) return 0xffffffffffffffffull;
  const u64 bits = x == 0 ? 0 : static_cast<u64>(__double_as_longlong(x));
  return bits & 0x8000000000000000ull ? ~bits : bits | 0x8000000000000000ull;
}

template <class Key>
__device__ bool is_before(Key a, u32 position_a, Key b, u32 position_b) {
  return a < b || (a == b && position_a < position_b);
}

template <class Body>
__device__ void sort_tiles(const Body& body) {
  using Key = typename Body::Key;
  __shared__ Key keys[Body::kTile];
  __shared__ u32 positions[Body::kTile];
  const i64 number = blockIdx.x / Body::kTiles, start = static_cast<i64>(blockIdx.x % Body::kTiles) * Body::kTile;
  const Row<Body> row(number);
  for (int i = threadIdx.x; i < Body::kTile; i += Body::kThreads) {
    Key key = ~Key(0);  // past the row: last, as its position is
    if (start + i < Body::kLength) {
      key = key_of(convert<typename Body::Value>(row.element(body, start + i)));
      if (Body::kDescending) key = ~key;
    }
    keys[i] = key;
    positions[i] = static_cast<u32>(start + i);
  }
  for (int run = 2; run <= Body::kTile; run *= 2)
    for (int reach = run / 2; reach > 0; reach /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < Body::kTile / 2; i += Body::kThreads) {
        const int low = 2 * i - (i & (reach - 1)), high = low + reach;
        const Key a = keys[low], b = keys[high];
        const u32 at_a = positions[low], at_b = positions[high];
        const bool upwards = (low & run) == 0;
        if (is_before(b, at_b, a, at_a) == upwards) {
          keys[low] = b, positions[low] = at_b;
          keys[high] = a, positions[high] = at_a;
        }
      }
    }
  __syncthreads();
  for (int i = threadIdx.x; i < Body::kTile; i += Body::kThreads) {
    if constexpr (Body::kTiles == 1) {
      if (i < Body::kWanted) row.store(body, i, static_cast<i32>(positions[i]));
    } else if (start + i < Body::kLength) {
      body.keys0[number * Body::kLength + start + i] = keys[i];
      body.positions0[number * Body::kLength + start + i] = positions[i];
    }
  }
}

// Merges runs of kTile << pass elements in pairs.
template <class Body, int pass, bool is_last>
__device__ void merge_runs(const Body& body) {
  using Key = typename Body::Key;
  const i64 element = static_cast<i64>(blockIdx.x) * Body::kThreads + threadIdx.x;
  if (element >= static_cast<i64>(Body::kRows) * Body::kLength) return;
  const i64 number = element / Body::kLength, base = number * Body::kLength, at = element % Body::kLength;
  const Key* const keys = (pass % 2 ? body.keys1 : body.keys0) + base;
  const u32* const positions = (pass % 2 ? body.positions1 : body.positions0) + base;
  constexpr i64 width = static_cast<i64>(Body::kTile) << pass;
  const auto bounded = [](i64 i) { return i < Body::kLength ? i : Body::kLength; };
  const i64 begin = at / (2 * width) * (2 * width), middle = bounded(begin + width), end = bounded(begin + 2 * width);
  const Key key = keys[at];
  const u32 position = positions[at];
  // The first element of the other run that is behind this one.
  i64 low = at < middle ? middle : begin, high = at < middle ? end : middle;
  while (low < high) {
    const i64 half = (low + high) / 2;
    if (is_before(keys[half], positions[half], key, position))
      low = half + 1;
    else
      high = half;
  }
  const i64 to = at + low - middle;
  if constexpr (is_last) {
    if (to < Body::kWanted) Row<Body>(number).store(body, to, static_cast<i32>(position));
  } else {
    (pass % 2 ? body.keys0 : body.keys1)[base + to] = key;
    (pass % 2 ? body.positions0 : body.positions1)[base + to] = position;
  }
}
