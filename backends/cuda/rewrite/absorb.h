// Absorb: fuses a group into a neighbour whose family can do its work in the same program.
#pragma once

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// Asks each group's families about the other groups until none absorbs any more, then drops groups whose results no
/// one reads. The one place that checks whether the order of kernels allows two groups to become one.
void absorb(Grouping& grouping);

/// Adds a copy of `maker` to a group's members, which read the copy's result in a new slot.
void clone_into(Grouping& grouping, std::size_t group, const Kernel& maker);

}  // namespace nixie::cuda
