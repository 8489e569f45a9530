// Recompute: values that are cheap to make of one stored value are made where they are read.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// The same graph, in which every reader of such a value has a copy of the nodes that make it, so that no kernel stores
/// it for another.
Graph recompute(const Graph& graph);

}  // namespace nixie
