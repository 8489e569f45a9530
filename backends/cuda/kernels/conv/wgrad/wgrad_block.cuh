// A block of a filter gradient on Hopper: barriers, the producer and prefetch warps, and the consumers' loop over
// items. For conv_wgrad_sm90.cuh and conv_wgrad_halo_sm90.cuh, whose kernels call run_block. Besides what
// wgrad_sums.cuh requires, they define:
//   kStages kStageBytes     depth of the ring, bytes of one of its stages
//   void produce(...)       called by one thread: fills the ring with the stages of all items
//   struct Operands         a consumer's operands; constructed from (const Shared&, int consumer)
//   void accumulate(Sums&, Ring<kStages>&, const Item&, const Operands&, const Turn&)
//                           called by a warpgroup: computes the sums of one item
#pragma once
#include "wgrad_sums.cuh"

// The tensor maps of each plane.
struct Maps {
  const TensorMap *x[kPlanes], *dy[kPlanes];
};

// Addresses in shared memory: the ring, its barriers, 64 pairs of ones (an operand of the bias gradient), and the
// barriers of a cluster.
struct Shared {
  u32 ring, full, empty, ones, stored, read;
};

// Consumers that have their own tiles take items in turn. The products of `item` may begin once all stages of the
// block's previous item have been read.
struct Turn {
  int item, items;
  NIXIE_DEVICE void wait() const {
    if (kTurns > 1 && item > 0) asm volatile("bar.sync %0, 256;" ::"r"(1 + item % kTurns) : "memory");
  }
  NIXIE_DEVICE void pass() const {
    if (kTurns > 1 && item + 1 < items) asm volatile("bar.arrive %0, 256;" ::"r"(1 + (item + 1) % kTurns) : "memory");
  }
};

// `begun` counts the items begun, for prefetch_tiles.
NIXIE_DEVICE void produce(const Maps& maps, const Shared& shared, const int4* items, int count, volatile int& begun);

template <class Operands>
NIXIE_DEVICE void run_block(const Maps& maps, const Body& body) {
  extern __shared__ u8 dynamic[];
  __shared__ alignas(8) u64 full_barriers[kStages], empty_barriers[kStages], stored, read;
  __shared__ alignas(128) u32 ones[64];
  const Shared shared{(shared_address(dynamic) + 1023) & ~1023u,
                      shared_address(full_barriers),
                      shared_address(empty_barriers),
                      shared_address(ones),
                      shared_address(&stored),
                      shared_address(&read)};
  const int first = body.first_items[blockIdx.x], count = body.first_items[blockIdx.x + 1] - first;
  const int4* items = body.items + first;
  __shared__ volatile int begun;
  if (threadIdx.x == 0) begun = 0;
  if (threadIdx.x < 64) ones[threadIdx.x] = pack(1.f, 1.f);
  fence_async_proxy();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(shared.full + 8 * i, 1);
      barrier_init(shared.empty + 8 * i, kTileThreads / 128);
    }
    if (kCluster > 1) barrier_init(shared.stored, kCluster), barrier_init(shared.read, kCluster);
    barrier_init_done();
    prefetch_map(maps.x[0]), prefetch_map(maps.dy[0]);
  }
  if (kCluster > 1)
    cluster_sync();  // before any block arrives at the barriers of another
  else
    __syncthreads();
  const int role = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (role == 0) {
    if (kConsumers > 1) registers_down<kConsumers == 2 ? 40 : 32>();
    if (threadIdx.x == 0) produce(maps, shared, items, count, begun);
#if CONV_PREFETCH
    if (threadIdx.x / 32 == 1) prefetch_tiles(body, items, count, begun);
#endif
  } else {
    if (kConsumers > 1) registers_up<kConsumers == 2 ? 232 : 160>();
    const int consumer = role - 1, thread = kTurns > 1 ? threadIdx.x % 128 : threadIdx.x - 128;
    const u32 staging = shared.ring + kStages * kStageBytes + (threadIdx.x / 32 - 4) * 2048;
    const Operands at(shared, consumer);
    Sums sums;
    Ring<kStages> ring;
    int i = kTurns > 1 ? consumer : 0;
    const auto skip = [&](int from, int to) {  // skips the stages of other consumers' items
#ifdef CONV_IN_TURN
      for (int other = from; other < min(to, count); other++) ring.skip(items[other].z);
#endif
    };
    for (skip(0, i); i < count; skip(i + 1, i + kTurns), i += kTurns) {
      const Item item(items[i]);
      Cluster::begin(sums);
      accumulate(sums, ring, item, at, Turn{i, count});
      const Cluster cluster{shared.ring, shared.stored, shared.read, blockIdx.x % kCluster, i & 1u};
      finish(body, sums, item, cluster, body.bias_parts + (first + i) * kLines * kTileM, staging, thread);
    }
  }
}
