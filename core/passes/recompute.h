// Recompute: recomputes values that are cheap to make from one stored value in the kernels that read them.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// The same graph, in which every reader of such a value has its own copy of the nodes that compute it, so that no
/// kernel stores it for another.
Graph recompute(const Graph& graph);

}  // namespace nixie
