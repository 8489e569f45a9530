// A Graph's nodes in order, its inputs and numbers; graphs that are made of it node by node.
#pragma once

#include <functional>

#include "nixie/core/state/graph.h"

namespace nixie {

/// All nodes of a graph, inputs before users, in an order that depends on its structure alone.
std::vector<Tensor> topological(const Graph& graph);

/// The node with these inputs; itself if it has none.
Tensor with_inputs(const Tensor& x, std::vector<Tensor> inputs);

/// The graph with `by(root)` in place of each root.
Graph with_roots(const Graph& graph, const std::function<Tensor(const Tensor&)>& by);

/// The graph written anew, its nodes in topological order: `by(node, inputs)` is called with what it gave for the
/// node's inputs. `order`: other nodes to write, too, each after its inputs.
using WriteNode = std::function<Tensor(const Tensor& x, std::vector<Tensor> inputs)>;
Graph rewritten(const Graph& graph, const WriteNode& by);
Graph rewritten(const Graph& graph, const WriteNode& by, const std::vector<Tensor>& order);

/// The graph's Inputs in topological order: the first externals of its plan.
std::vector<Tensor> leaves_of(const Graph& graph);

/// Whether a number is a literal in a plan (0, 1, small integers) and not a scalar given to each run.
bool is_plain_number(double value);
/// The numbers of the graph's Constants that are not plain, in topological order.
std::vector<double> scalars_of(const Graph& graph);

}  // namespace nixie
