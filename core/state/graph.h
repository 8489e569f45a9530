// Graph: the roots of what a plan computes.
#pragma once

#include <vector>

#include "nixie/core/state/variable.h"

namespace nixie {

/// The roots of a graph: values to hand out and Variables to change.
struct Graph {
  std::vector<Tensor> outputs = {};
  std::vector<Trace::Set> sets = {};
};

}  // namespace nixie
