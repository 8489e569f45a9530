// Simplify: the first pass. One node for equal expressions, no views of views, no arithmetic with neutral elements.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// The same graph without duplicate computations, no-ops and dead nodes.
Graph simplify(const Graph& graph);

/// All nodes of a graph, inputs before users, in an order that depends on its structure alone.
std::vector<Tensor> topological(const Graph& graph);

/// A text that is equal for two graphs exactly if they can share a plan: leaves are numbered, and so are the numbers
/// that a plan takes as scalars.
std::string signature(const Graph& graph);

/// Whether a number is a literal in a plan (0, 1, small integers) and not a scalar given to each run.
bool is_plain_number(double value);
/// The numbers of the graph's Constants that are not plain, in topological order.
std::vector<double> scalars_of(const Graph& graph);
/// The graph's Inputs in topological order: the first externals of its plan.
std::vector<Tensor> leaves_of(const Graph& graph);

}  // namespace nixie
