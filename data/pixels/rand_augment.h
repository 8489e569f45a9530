// RandAugment (Cubuk et al. 2020): a few of fourteen operations, all with one strength.
#pragma once

#include "nixie/data/draws.h"
#include "nixie/data/pixels/planes.h"

namespace nixie {

/// As in torchvision's RandAugment with 31 strengths.
constexpr int kRandAugmentStrengths = 31;

/// The names of the operations, in the order of their random numbers.
std::span<const char* const> rand_augment_names();
/// One operation; `strength` in [0, 30], `negative` for operations with a direction.
void rand_augment_change(Planes& planes, std::size_t change, double strength, bool negative);
/// `count` random operations, one after the other.
void rand_augment(Planes& planes, int count, double strength, Draws& draws);

}  // namespace nixie
