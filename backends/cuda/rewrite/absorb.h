// Absorb: groups take over the work of others that their families' programs can do on their way.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// Asks each group's families about the other groups until none absorbs any more, then drops groups whose results no
/// one reads. The one place that checks whether the order of kernels allows two groups to become one.
void absorb(Grouping& grouping);

/// Computes what a group with one member makes in another group, too: that reads a slot of its own from then on.
void clone_into(Grouping& grouping, std::size_t group, const Kernel& maker);

}  // namespace nixie::cuda
