// Queries on a Graph: its nodes in order, its inputs, its numbers.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// All nodes of a graph, inputs before users, in an order that depends on its structure alone.
std::vector<Tensor> topological(const Graph& graph);

/// The graph's Inputs in topological order: the first externals of its plan.
std::vector<Tensor> leaves_of(const Graph& graph);

/// Whether a number is a literal in a plan (0, 1, small integers) and not a scalar given to each run.
bool is_plain_number(double value);
/// The numbers of the graph's Constants that are not plain, in topological order.
std::vector<double> scalars_of(const Graph& graph);

}  // namespace nixie
