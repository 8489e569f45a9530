// The work of a graph or a kernel: FLOP of products, and bytes that must be moved.
#pragma once

#include "nixie/core/graph/plan.h"
#include "nixie/core/state/graph.h"

namespace nixie {

/// Twice the multiplications of a Conv or Matmul node; 0 for others.
double flop(const Tensor& node);

struct Work {
  double flop = 0;   ///< of products and convolutions
  double bytes = 0;  ///< what is read and written at least: each Variable and slot once
};
/// The work of a graph; its bytes are those of the Variables that it reads and sets.
Work work_of(const Graph& graph);
/// The bytes of all Variables.
std::int64_t bytes_of(const Parameters& parameters);
/// The work of a plan of one group: its products as they run, the slots that the group reads and writes.
Work work_of_group(const Plan& plan);

}  // namespace nixie
