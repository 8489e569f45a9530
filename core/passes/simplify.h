// Simplify: the first pass. One node for equal expressions, no views of views, no arithmetic with neutral elements.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// The same graph without duplicate computations, no-ops and dead nodes.
Graph simplify(const Graph& graph);

/// A text that is equal for two graphs exactly if they can share a plan: leaves are numbered, and so are the numbers
/// that a plan takes as scalars.
std::string signature(const Graph& graph);

}  // namespace nixie
