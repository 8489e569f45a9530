// Which slots a choice reads and writes; queries on groups while they are formed.
#include "nixie/backends/cuda/families/family.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

bool contains(const std::vector<int>& slots, int slot) { return std::count(slots.begin(), slots.end(), slot) > 0; }

template <class Touches>
std::vector<std::size_t> groups_that(const Grouping& grouping, Touches touches) {
  std::vector<std::size_t> found;
  for (std::size_t g = 0; g < grouping.groups.size(); ++g)
    if (touches(g)) found.push_back(g);
  return found;
}

// The accesses that a choice's program stores to, in order.
template <class Visit>
void for_each_store(const Choice& choice, Visit visit) {
  if (choice.pooled) {
    visit(choice.pooled->output), visit(choice.pooled->index);
  } else {
    for (const Access& store : choice.kernel.stores) visit(store);
    for (const Choice& other : choice.beside)
      for (const Access& store : other.kernel.stores) visit(store);
  }
  if (choice.index) visit(*choice.index);
  if (choice.channel_sum) visit(*choice.channel_sum);
}

}  // namespace

Plan with_slots_apart(const Plan& plan) {
  Plan apart{.slots = plan.slots};
  for (Slot& slot : apart.slots) slot.external = true;
  return apart;
}

std::vector<Access> stores_of(const Choice& choice) {
  std::vector<Access> stores;
  for_each_store(choice, [&](const Access& store) { stores.push_back(store); });
  return stores;
}

std::vector<int> slots_read(const Choice& choice) {
  std::vector<int> slots;
  if (choice.images)
    for (const Access& access : choice.images->more) slots.push_back(access.slot);
  for (int slot : nixie::slots_read(choice.kernel)) slots.push_back(slot);
  if (choice.images) {  // operands are the last of the kernel's
    const auto& [op, operands, dtype] = *choice.kernel.head;
    const bool forward = std::get<Conv>(op).role == ConvRole::output;
    slots[slots.size() - operands.size() + (forward ? 0 : 1)] = choice.images->view.slot;
  }
  for (const Choice& other : choice.beside)
    for (int slot : slots_read(other)) slots.push_back(slot);
  for (const Operand& plane : choice.low_planes) slots.push_back(plane.slot);
  if (choice.pooled_by) slots.push_back(choice.pooled_by->slot);
  for (const Parts& parts : choice.merges) slots.push_back(parts.slot);
  // Both sides list packed images as read; the forward pass also writes them.
  if (choice.packed_images) slots.push_back(*choice.packed_images);
  return slots;
}

std::vector<int> slots_written(const Choice& choice) {
  std::vector<int> slots;
  for_each_store(choice, [&](const Access& store) { slots.push_back(store.slot); });
  if (choice.leaves) slots.push_back(choice.leaves->slot);
  const auto* conv = choice.kernel.head ? std::get_if<Conv>(&choice.kernel.head->op) : nullptr;
  if (choice.packed_images && conv && conv->role == ConvRole::output) slots.push_back(*choice.packed_images);
  return slots;
}

Work Family::work(const Plan& plan, const Choice& choice, const Chip& chip) const {
  const std::vector<Algorithm> fastest = algorithms(plan, choice, chip);
  if (!fastest.empty() && fastest.front().estimate > 0) return {.clocks = fastest.front().estimate};
  if (!choice.kernel.head) return {};
  const double multiplied = flop(choice.kernel);
  return size_of(dtype_of(plan, choice.kernel.head->operands[0])) <= 2 ? Work{.mma = multiplied}
                                                                       : Work{.fma = multiplied};
}

std::string Implementers::name() const { return std::string(choices.front().family->name()); }

bool Grouping::reads(std::size_t group, int slot) const {
  const Group& g = groups[group];
  if (g.by) return contains(slots_read(g.by->choices.front()), slot);
  return std::any_of(g.members.begin(), g.members.end(), [&](const Kernel& k) { return nixie::reads(k, slot); });
}
bool Grouping::writes(std::size_t group, int slot) const {
  const Group& g = groups[group];
  if (g.by) return contains(slots_written(g.by->choices.front()), slot);
  return std::any_of(g.members.begin(), g.members.end(), [&](const Kernel& k) { return nixie::writes(k, slot); });
}

std::vector<std::size_t> Grouping::readers_of(int slot) const {
  return groups_that(*this, [&](std::size_t g) { return reads(g, slot); });
}
std::vector<std::size_t> Grouping::writers_of(int slot) const {
  return groups_that(*this, [&](std::size_t g) { return writes(g, slot); });
}

const Choice* Grouping::choice(std::size_t group, std::string_view family) const {
  const auto& by = groups[group].by;
  return by && by->choices.size() == 1 && by->choices[0].family->name() == family ? &by->choices[0] : nullptr;
}

std::optional<std::size_t> Grouping::only_reader(int slot) const {
  const std::vector<std::size_t> readers = readers_of(slot);
  const bool one = !plan.slots[at(slot)].external && readers.size() == 1 && writers_of(slot).size() == 1;
  return one ? std::optional(readers[0]) : std::nullopt;
}

}  // namespace nixie::cuda
