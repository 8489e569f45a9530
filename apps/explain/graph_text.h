// A graph as text, one line per node.
#pragma once

#include <string>

#include "nixie/core/step.h"

namespace nixie {

/// `%7 = conv output (%1, %5)  f32 [16, 64, 55, 55]` per node, and the Variables that are set.
std::string graph_text(const Graph& graph);

}  // namespace nixie
