// Fuse: the pass that groups the computations of a graph into kernels (a ReLU with its convolution) and makes a Plan.
#pragma once

#include "nixie/core/graph/plan.h"
#include "nixie/core/passes/layout.h"

namespace nixie {

/// A future kernel: nodes of the FusionGraph (`units`) that all iterate over `domain`. All its reductions are over the
/// axes `reduced`.
struct FusedGroup {
  Shape domain = {};
  Axes reduced = {};
  bool head = false;
  std::vector<int> units = {};
};

/// The kernels of a graph in a valid order, over slots that are not placed in memory yet, without waits.
/// Externals: leaves_of(graph), then the outputs, then Variables that are set and never read.
Plan fuse(const Graph& graph, const Layout& layout, Fusion fusion = Fusion::full);

}  // namespace nixie
