// Kernels of one or three spatial axes as kernels of two.
#pragma once

#include <functional>
#include <set>

#include "nixie/core/graph/plan.h"

namespace nixie::cuda {

/// The kernel with a spatial axis of one position before its only one: [N, C, W] becomes [N, C, 1, W].
Kernel with_unit_axis(Kernel kernel);

/// Whether images and the first spatial axis of [N, C, D, H, W] are one axis of planes in all that a kernel reads and
/// writes, and it does the same in each plane.
bool has_planes(const Kernel& kernel);
/// Such a kernel over [N * D, C, H, W].
Kernel over_planes(Kernel kernel);

/// The same of an operand.
bool has_planes(const Operand& operand);
Operand over_planes(const Operand& operand);

/// Adds the slots that a kernel reads or writes.
void add_slots(std::set<int>& slots, const Kernel& kernel);
/// Changes the kernels that can be changed and read or write one of the slots.
void change_at(Plan& plan, const std::set<int>& slots, const std::function<bool(const Kernel&)>& can,
               const std::function<Kernel(Kernel)>& change);

}  // namespace nixie::cuda
