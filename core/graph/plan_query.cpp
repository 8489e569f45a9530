// Lists the slots that kernels and groups touch.
#include "nixie/core/graph/plan_query.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/world.h"

namespace nixie {
namespace {

template <class Touches>
std::vector<std::size_t> kernels_that(const std::vector<Kernel>& kernels, Touches touches) {
  std::vector<std::size_t> found;
  for (std::size_t k = 0; k < kernels.size(); ++k)
    if (touches(kernels[k])) found.push_back(k);
  return found;
}

// Strides of axes of one position mean nothing.
bool agree(const Shape& shape, const Strides& a, const Strides& b) {
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1 && a[at(axis)] != b[at(axis)]) return false;
  return true;
}

}  // namespace

std::vector<int> slots_read(const Kernel& kernel) {
  std::vector<int> slots;
  for (const Access& load : kernel.loads) slots.push_back(load.slot);
  if (kernel.head)
    for (const Operand& operand : kernel.head->operands) slots.push_back(operand.slot);
  return slots;
}

std::vector<int> slots_written(const Kernel& kernel) {
  std::vector<int> slots;
  for (const Access& store : kernel.stores) slots.push_back(store.slot);
  return slots;
}

bool reads(const Kernel& kernel, int slot) {
  const auto is_there = [&](const auto& access) { return access.slot == slot; };
  return std::ranges::any_of(kernel.loads, is_there) ||
         (kernel.head && std::ranges::any_of(kernel.head->operands, is_there));
}
bool writes(const Kernel& kernel, int slot) {
  return std::ranges::any_of(kernel.stores, [&](const Access& access) { return access.slot == slot; });
}

bool is_own_exchange(const Plan& plan, const Kernel& kernel) {
  const auto* op = kernel.head ? std::get_if<Collective>(&kernel.head->op) : nullptr;
  if (!op || op->communicator->size() > 1 || kernel.stages.size() != 1 || kernel.stages[0].body.size() != 1 ||
      kernel.stores.size() != 1)
    return false;
  const Operand& operand = kernel.head->operands[0];
  const Access& store = kernel.stores[0];
  const Slot &from = plan.slots[at(operand.slot)], &to = plan.slots[at(store.slot)];
  return from.dtype == to.dtype && from.shape.size() == kernel.domain.size() &&
         to.shape.size() == kernel.domain.size() && operand.shape == kernel.domain && operand.offset == 0 &&
         store.offset == 0 && store.inside.empty() && agree(kernel.domain, operand.strides, store.strides);
}
bool stays_in_place(const Plan& plan, const Kernel& kernel) {
  return is_own_exchange(plan, kernel) && !plan.slots[at(kernel.head->operands[0].slot)].external &&
         !plan.slots[at(kernel.stores[0].slot)].external;
}

// Every role multiplies each output position of the convolution with each filter element that feeds it.
double conv_flop(ConvRole role, const Shape& result, const Shape& first, const Shape& second) {
  const Shape& outputs = role == ConvRole::output ? result : first;
  const Shape& filters = role == ConvRole::filter_grad ? result : second;
  return 2 * static_cast<double>(outputs.size()) * static_cast<double>(filters.size()) /
         static_cast<double>(filters[0]);
}

double flop(const Kernel& kernel) {
  if (!kernel.head) return 0;
  const std::vector<Operand>& operands = kernel.head->operands;
  if (product_in<Matmul>(kernel.head->op))
    return 2 * static_cast<double>(kernel.domain.size()) * static_cast<double>(operands[0].shape[-1]);
  const auto* conv = product_in<Conv>(kernel.head->op);
  return conv ? conv_flop(conv->role, kernel.domain, operands[0].shape, operands[1].shape) : 0;
}

bool finds_positions(const Kernel& kernel) {
  for (const Stage& stage : kernel.stages)
    for (const Reduction& reduction : stage.reductions)
      if (gives_position(reduction.kind)) return true;
  return false;
}

std::vector<std::size_t> readers_of(const std::vector<Kernel>& kernels, int slot) {
  return kernels_that(kernels, [&](const Kernel& kernel) { return reads(kernel, slot); });
}
std::vector<std::size_t> writers_of(const std::vector<Kernel>& kernels, int slot) {
  return kernels_that(kernels, [&](const Kernel& kernel) { return writes(kernel, slot); });
}

Dtype dtype_of(const Plan& plan, int slot) { return plan.slots[at(slot)].dtype; }

void complete_groups(Plan& plan) {
  std::vector<bool> grouped(plan.kernels.size());
  for (const Group& group : plan.groups)
    for (int k : group.members) grouped[at(k)] = true;
  for (int k = 0; k < std::ssize(plan.kernels); ++k)
    if (!grouped[at(k)]) plan.groups.push_back({.members = {k}});
  std::ranges::stable_sort(plan.groups, {}, [](const Group& group) { return group.members.front(); });
  for (Group& group : plan.groups) {
    if (group.implementation) continue;
    group.reads.clear(), group.writes.clear();
    for (int k : group.members) {
      const std::vector<int> read = slots_read(plan.kernels[at(k)]), written = slots_written(plan.kernels[at(k)]);
      group.reads.insert(group.reads.end(), read.begin(), read.end());
      group.writes.insert(group.writes.end(), written.begin(), written.end());
    }
  }
}

std::string label_of(const Plan& plan, const Group& group) {
  std::string label;
  for (auto member = group.members.begin(), end = member; member != group.members.end(); member = end) {
    const std::string& name = plan.kernels[at(*member)].label;
    end = std::find_if(member, group.members.end(), [&](int k) { return plan.kernels[at(k)].label != name; });
    label += (label.empty() ? "" : " + ") + name;
    if (end - member > 1) label += fmt::format(" x {}", end - member);
  }
  return label;
}

}  // namespace nixie
