// RankSum: how ranks add up arrays: which pieces of them travel together, and the kernels before and after NCCL.
#pragma once

#include <span>
#include <vector>

#include "nixie/backends/cuda/families/collective.h"
#include "nixie/backends/cuda/generate/program.h"

namespace nixie::cuda {

/// Sums of arrays of one floating type, cut into exchanges that use the same scratch memory one after another. The sum
/// is that of a tree over the ranks, rounded once: the same bits whatever travels together.
struct RankSum {
  struct Exchange {
    /// Packs this rank's arrays; adds, and where ranks gather unpacks; unpacks the sums of all shares where they do
    /// not.
    KernelCode pack, add, unpack;
    std::int64_t part = 0;  ///< elements: of all arrays where ranks gather, else of the share of each rank
  };
  Dtype dtype = Dtype::f32;
  /// Every rank gets the arrays of all, and adds them; else each adds its share of all, and gets the sums of others.
  bool gathers = false;
  std::vector<Exchange> exchanges;
  std::int64_t received = 0, scratch_bytes = 0;  ///< in bytes: where the parts for this rank arrive; all of it
};

/// For calls that are sums of one type, on `rank` of `ranks`.
RankSum rank_sum(std::span<const CollectiveCall> calls, int rank, int ranks);

}  // namespace nixie::cuda
