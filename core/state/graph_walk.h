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

/// The same graph with nodes made anew, so that they are numbered by what the collectives need: first all that leads to
/// the first one, then what leads to the next. So fusion sees them in the order in which every rank runs them. Itself
/// where there are fewer than two.
Graph order_collectives(const Graph& graph);

/// The graph's Inputs in topological order: the first externals of its plan.
std::vector<Tensor> leaves_of(const Graph& graph);

/// Whether x is a number that is given to each run, and no literal in a plan (0, 1, small integers).
bool is_scalar(const Tensor& x);
/// These numbers of a graph, in topological order.
std::vector<double> scalars_of(const Graph& graph);

}  // namespace nixie
