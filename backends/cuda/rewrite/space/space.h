// Rewrites kernels with one or three spatial axes as kernels with two.
#pragma once

#include <functional>
#include <set>

#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// The kernel with a second spatial axis, of one position, before its only one: [N, C, W] becomes [N, C, 1, W].
Kernel with_unit_axis(Kernel kernel);

/// Whether a kernel does the same for each plane, and images and the first spatial axis of [N,
/// C, D, H, W] can be merged into one axis of planes in everything that it reads and writes.
bool has_planes(const Kernel& kernel);
/// Such a kernel over [N * D, C, H, W].
Kernel over_planes(Kernel kernel);

/// Whether a kernel does the same for each pixel of a plane, and its rows and columns can be merged into one axis.
bool has_pixels(const Kernel& kernel);
/// Such a kernel over [N, C, D, H * W].
Kernel over_pixels(Kernel kernel);

/// The same as has_planes for an operand.
bool has_planes(const Operand& operand);
Operand over_planes(const Operand& operand);

/// Adds the slots that a kernel reads or writes.
void add_slots(std::set<int>& slots, const Kernel& kernel);
/// Changes those kernels that can be changed and that read or write one of the slots.
void change_at(Plan& plan, const std::set<int>& slots, const std::function<bool(const Kernel&)>& can,
               const std::function<Kernel(Kernel)>& change);

}  // namespace nixie::cuda
