// Order: lets fusion see collectives in the order in which every rank runs them.
#pragma once

#include "nixie/core/state/graph.h"

namespace nixie {

/// The same graph with nodes made anew, so that they are numbered by what the collectives need: first all that leads to
/// the first one, then what leads to the next. Itself where there are fewer than two.
Graph order_collectives(const Graph& graph);

}  // namespace nixie
