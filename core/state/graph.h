// Graph: the roots that a plan computes.
#pragma once

#include <vector>

#include "nixie/core/state/variable.h"

namespace nixie {

/// The roots of a graph: values to return and Variables to set.
struct Graph {
  std::vector<Tensor> outputs = {};
  std::vector<Trace::Set> sets = {};
};

}  // namespace nixie
