// Scans: each block folds one row, tile after tile, in an order that depends on the row's length alone.
//
// Body, beside what rows.cuh reads: Fold, an accumulator, and Value, what it takes; kReverse, kExclusive; kPositions:
// the fold takes positions, too; kThreads, and kItems neighbouring elements of each thread.
#pragma once

#include "accumulators.cuh"
#include "rows.cuh"

template <class Body>
__device__ void scan(const Body& body) {
  using Fold = typename Body::Fold;
  constexpr int threads = Body::kThreads, items = Body::kItems;
  __shared__ u64 memory[(sizeof(Fold) * threads + 7) / 8];
  Fold* const shared = reinterpret_cast<Fold*>(memory);
  const Row<Body> row(blockIdx.x);
  const int thread = threadIdx.x;
  const auto position = [](i64 i) { return Body::kReverse ? Body::kLength - 1 - i : i; };
  Fold before;  // of the tiles before this one
  for (i64 start = 0; start < Body::kLength; start += threads * items) {
    const i64 first = start + thread * items;
    Fold own, up_to[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (first + i < Body::kLength) {
        const auto x = convert<typename Body::Value>(row.element(body, position(first + i)));
        if constexpr (Body::kPositions)
          own.add(x, static_cast<i32>(position(first + i)));
        else
          own.add(x);
      }
      up_to[i] = own;
    }
    shared[thread] = own;
    __syncthreads();
    for (int reach = 1; reach < threads; reach *= 2) {  // Hillis and Steele 1986
      Fold joined = shared[thread >= reach ? thread - reach : thread];
      if (thread >= reach) joined.merge(shared[thread]);
      __syncthreads();
      shared[thread] = joined;
      __syncthreads();
    }
    Fold left = before;
    if (thread > 0) left.merge(shared[thread - 1]);
#pragma unroll
    for (int i = 0; i < items; ++i) {
      if (first + i >= Body::kLength) break;
      Fold y = left;
      if constexpr (!Body::kExclusive)
        y.merge(up_to[i]);
      else if (i > 0)
        y.merge(up_to[i - 1]);
      row.store(body, position(first + i), y.value);
    }
    before.merge(shared[threads - 1]);
    __syncthreads();
  }
}
