// Whether kernels store to different elements of a slot, so that they need not wait for each other: phases of a
// gradient, parts of a concatenation.
#pragma once

#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie {

/// Whether no element of a slot is stored by both groups, each given by its members. False where that is not certain,
/// or where the members of one store nothing there.
bool stores_are_disjoint(const Plan& plan, int slot, const std::vector<const Kernel*>& a,
                         const std::vector<const Kernel*>& b);

}  // namespace nixie
