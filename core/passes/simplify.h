// Simplify: the first pass. One node for equal expressions, no views of views, no arithmetic with neutral elements.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// The same graph rebuilt without what is computed twice or has no effect. Dead nodes vanish.
Graph simplify(const Graph& graph);

/// All nodes of a graph, inputs before users, in an order that depends on its structure alone.
std::vector<Tensor> topological(const Graph& graph);

/// Text that is equal for two graphs just when one plan serves both: leaves are numbered, and so are the numbers that a
/// plan takes as scalars.
std::string signature(const Graph& graph);

/// Whether a number stands in a plan as itself (0, 1, small integers) and not as a scalar brought by each run.
bool is_plain_number(double value);
/// The numbers of the graph's Constants that are not plain, in topological order.
std::vector<double> scalars_of(const Graph& graph);
/// The graph's Inputs in topological order: the first externals of its plan.
std::vector<Tensor> leaves_of(const Graph& graph);

}  // namespace nixie
