// Wide squares: finds the squares of halves that must stay f32, because a sum of them follows.
#pragma once

#include <unordered_set>

#include "nixie/core/state/graph.h"

namespace nixie {

/// The squares that are summed (sum, mean, average pooling, or one added to another), and what is made of them alone by
/// steps that keep their range: views, concatenation, averages, choices, sums, multiples. A square of 256 is beyond
/// f16, so none of these may be stored in halves. A root of such a sum, or a power, is in range again.
std::unordered_set<const Node*> wide_squares(const Graph& graph);

}  // namespace nixie
