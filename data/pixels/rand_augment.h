// RandAugment (Cubuk et al. 2020): a few changes out of fourteen, all of one strength.
#pragma once

#include "nixie/data/draws.h"
#include "nixie/data/pixels/planes.h"

namespace nixie {

/// Strengths are those of torchvision's RandAugment with 31 of them.
constexpr int kRandAugmentStrengths = 31;

/// The names of the changes, in the order that they are drawn by.
std::span<const char* const> rand_augment_names();
/// One change; `strength` in [0, 30], `negative` where the change has a direction.
void rand_augment_change(Planes& planes, std::size_t change, double strength, bool negative);
/// `count` changes, drawn one after the other.
void rand_augment(Planes& planes, int count, double strength, Draws& draws);

}  // namespace nixie
