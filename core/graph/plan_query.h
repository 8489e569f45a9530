// Questions about a plan: which kernels and groups read and write which slots.
#pragma once

#include <string>
#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie {

/// The slots a kernel reads (loads and operands), and those it stores to.
std::vector<int> slots_read(const Kernel& kernel);
std::vector<int> slots_written(const Kernel& kernel);
bool reads(const Kernel& kernel, int slot);
bool writes(const Kernel& kernel, int slot);

/// Twice the multiplications of a convolution in any role.
double conv_flop(ConvRole role, const Shape& result, const Shape& first, const Shape& second);
/// Twice the multiplications of a kernel's product or convolution; 0 for others.
double flop(const Kernel& kernel);

/// Whether a reduction of the kernel is argmax or argmin.
bool finds_positions(const Kernel& kernel);

/// The kernels that read or write a slot, in order.
std::vector<std::size_t> readers_of(const std::vector<Kernel>& kernels, int slot);
std::vector<std::size_t> writers_of(const std::vector<Kernel>& kernels, int slot);

/// Whether a kernel only copies one slot to another of the same layout: what a process exchanges with itself.
bool is_own_exchange(const Plan& plan, const Kernel& kernel);
/// Whether both slots are in the arena, too, where plan_memory gives them the same bytes: nothing is left to run.
bool stays_in_place(const Plan& plan, const Kernel& kernel);

Dtype dtype_of(const Plan& plan, int slot);
inline Dtype dtype_of(const Plan& plan, const Operand& operand) { return dtype_of(plan, operand.slot); }

/// Makes a group for each kernel that is in none, sorts groups by their first members, and fills the reads and writes
/// of groups without an implementation from their members.
void complete_groups(Plan& plan);

/// The labels of a group's members; equal neighbours are counted: "update x 50".
std::string label_of(const Plan& plan, const Group& group);

}  // namespace nixie
