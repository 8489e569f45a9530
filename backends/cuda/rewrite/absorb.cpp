// Fuses groups if the order of kernels allows it.
#include "nixie/backends/cuda/rewrite/absorb.h"

#include <algorithm>

#include "nixie/backends/cuda/families/registry.h"
#include "nixie/backends/cuda/rewrite/touched.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

using GroupIndices = std::vector<std::size_t>;

// The groups in an order that has `other` beside `group`, which keeps its place as far as it can; none where a third
// group must run between the two.
std::optional<GroupIndices> order_beside(const Grouping& grouping, std::size_t group, std::size_t other) {
  const std::size_t first = std::min(group, other), last = std::max(group, other);
  const bool moves_up = other == last;  // `other` goes to where `group` is; else down to it
  std::vector<Touched> touched;
  for (std::size_t i = first; i <= last; ++i) touched.emplace_back(grouping.groups[i]);
  // The groups between that depend on `other`, perhaps by way of others of them.
  std::vector<bool> bound(touched.size());
  const auto bind = [&](std::size_t i, std::size_t from, std::size_t to) {
    for (std::size_t j = from; j < to; ++j)
      if (bound[j] && touched[j].meets(touched[i])) bound[i] = true;
  };
  bound[other - first] = true;
  if (moves_up)
    for (std::size_t i = touched.size() - 1; --i > 0;) bind(i, i + 1, touched.size());
  else
    for (std::size_t i = 1; i + 1 < touched.size(); ++i) bind(i, 0, i);
  for (std::size_t i = 1; i + 1 < touched.size(); ++i)
    if (bound[i] && touched[i].meets(touched[group - first])) return {};

  GroupIndices order;
  const auto add = [&](bool which) {
    for (std::size_t i = first + 1; i < last; ++i)
      if (bound[i - first] == which) order.push_back(i);
  };
  for (std::size_t i = 0; i < first; ++i) order.push_back(i);
  add(moves_up);
  order.insert(order.end(), {first, last});
  add(!moves_up);
  for (std::size_t i = last + 1; i < grouping.groups.size(); ++i) order.push_back(i);
  return order;
}

// Puts groups in an order and makes `other` a part of `group`; gives back where that is.
std::size_t merge(Grouping& grouping, std::size_t group, std::size_t other, const GroupIndices& order) {
  std::vector<Grouping::Group> ordered;
  std::size_t place = 0;
  for (std::size_t i : order) {
    const bool second = (i == group || i == other) && !ordered.empty() && place > 0;
    if (!second) ordered.push_back(std::move(grouping.groups[i]));
    if (i != group && i != other) continue;
    if (!second) {
      place = ordered.size();
      continue;
    }
    Grouping::Group& whole = ordered.back();
    Grouping::Group& part = grouping.groups[i];
    whole.members.insert(whole.members.end(), part.members.begin(), part.members.end());
    if (i == group) whole.by = part.by;
  }
  grouping.groups = std::move(ordered);
  return place - 1;
}

void pack_for_both(Grouping& grouping, std::size_t group, std::size_t other, const Slot& slot) {
  grouping.plan.slots.push_back(slot);
  for (std::size_t i : {group, other}) {
    grouping.groups[i].by = std::make_shared<Implementers>(*grouping.groups[i].by);
    for (Choice& choice : grouping.groups[i].by->choices)
      choice.packed_images = static_cast<int>(grouping.plan.slots.size()) - 1;
  }
}

// Gives the parts that one group leaves and the other merges their slot.
void share_parts(Grouping& grouping, std::size_t group, std::size_t other, const Absorption& with) {
  const int slot = static_cast<int>(grouping.plan.slots.size());
  grouping.plan.slots.push_back(*with.left);
  for (Choice& choice : grouping.groups[group].by->choices) choice.leaves->slot = slot;
  auto& by = grouping.groups[other].by;
  by = by ? std::make_shared<Implementers>(*by) : take(grouping.plan, grouping.groups[other].members[0], grouping.chip);
  by->choices = {*with.reader};
  by->choices[0].merges.back().slot = slot;
}

// Where the group is after it absorbed the other, and the order that groups were put in, if it has its members now.
struct Absorbed {
  std::size_t group = 0;
  std::optional<GroupIndices> order = {};
};

// None where it did not absorb the other. The fastest of the families that compete for the group decides; those that
// cannot follow drop out.
std::optional<Absorbed> absorb(Grouping& grouping, std::size_t group, std::size_t other) {
  std::optional<Absorption> first;
  auto by = std::make_shared<Implementers>();
  for (const Choice& choice : grouping.groups[group].by->choices) {
    std::optional<Absorption> with = choice.family->absorb(grouping, choice, other);
    if (!with && !first) return {};
    if (!with) {
      by->refused.push_back(
          fmt::format("{}: cannot absorb \"{}\"", choice.family->name(), grouping.groups[other].members.front().label));
      continue;
    }
    by->choices.push_back(with->choice);
    if (!first) first = std::move(with);
  }
  const auto joins = first->other == Absorption::Other::joins;
  std::optional<GroupIndices> order = joins ? order_beside(grouping, group, other) : std::nullopt;
  if (joins && !order) return {};
  // What one group leaves and the other merges is left first.
  if ((first->packed && group < other) || (first->reader && other < group)) return {};
  std::vector<std::string>& refused = grouping.groups[group].by->refused;
  by->refused.insert(by->refused.begin(), refused.begin(), refused.end());
  grouping.groups[group].by = by;
  if (joins) {
    const std::size_t now = merge(grouping, group, other, *order);
    return Absorbed{now, std::move(order)};
  }
  if (first->other == Absorption::Other::is_cloned)
    clone_into(grouping, group, Kernel(grouping.groups[other].members.front()));
  if (first->packed) pack_for_both(grouping, group, other, *first->packed);
  if (first->reader) share_parts(grouping, group, other, *first);
  return Absorbed{group};
}

// Groups that name a slot in common, as those do of which one can absorb the other.
class Neighbours {
 public:
  explicit Neighbours(const Grouping& grouping) : grouping_(grouping), number_at_(grouping.groups.size()) {
    for (std::size_t g = 0; g < number_at_.size(); ++g) number_at_[g] = g;
    place_of_ = number_at_;
    for (std::size_t g = 0; g < number_at_.size(); ++g) list(g);
  }

  /// In the order of groups.
  GroupIndices of(std::size_t group) const {
    std::set<std::size_t> found;
    for (int slot : named_by(group))
      for (std::size_t number : named_[at(slot)])
        if (place_of_[number] != group && place_of_[number] != kGone) found.insert(place_of_[number]);
    return {found.begin(), found.end()};
  }

  /// After `group` absorbed `other`, which may have changed `neighbours`, those it had before.
  void follow(std::size_t group, std::size_t other, const Absorbed& absorbed, GroupIndices neighbours) {
    neighbours.push_back(group);
    for (std::size_t& n : neighbours) n = number_at_[n];
    if (absorbed.order) {
      std::vector<std::size_t> moved;
      place_of_[number_at_[other]] = kGone;
      for (std::size_t i : *absorbed.order) {
        const bool first = (i == group || i == other) && moved.size() == absorbed.group;
        if (first || (i != group && i != other)) moved.push_back(number_at_[first ? group : i]);
      }
      number_at_ = std::move(moved);
      for (std::size_t g = 0; g < number_at_.size(); ++g) place_of_[number_at_[g]] = g;
    }
    for (std::size_t number : neighbours)
      if (place_of_[number] != kGone) list(place_of_[number]);
  }

 private:
  static constexpr std::size_t kGone = static_cast<std::size_t>(-1);

  std::set<int> named_by(std::size_t group) const {
    const Grouping::Group& g = grouping_.groups[group];
    std::set<int> slots;
    const auto add = [&](const std::vector<int>& some) { slots.insert(some.begin(), some.end()); };
    const auto add_kernel = [&](const Kernel& kernel) {
      add(nixie::slots_read(kernel)), add(nixie::slots_written(kernel));
    };
    for (const Kernel& member : g.members) add_kernel(member);
    if (g.by)
      for (const Choice& choice : g.by->choices)
        add_kernel(choice.kernel), add(slots_read(choice)), add(slots_written(choice));
    return slots;
  }
  void list(std::size_t group) {
    named_.resize(grouping_.plan.slots.size());
    for (int slot : named_by(group)) {
      auto& numbers = named_[at(slot)];
      if (std::ranges::find(numbers, number_at_[group]) == numbers.end()) numbers.push_back(number_at_[group]);
    }
  }

  const Grouping& grouping_;
  std::vector<std::size_t> number_at_, place_of_;  // a group's number stays where its place changes
  std::vector<std::vector<std::size_t>> named_;    // by slot: the groups that name it, or did
};

// Drops groups that make nothing anyone reads.
void drop_unread(Grouping& grouping) {
  std::vector<int> readers(grouping.plan.slots.size(), 0);
  for (const Grouping::Group& group : grouping.groups)
    for (int slot : Touched(group).reads) ++readers[at(slot)];
  std::erase_if(grouping.groups, [&](const Grouping::Group& group) {
    const std::set<int> written = Touched(group).writes;
    return std::ranges::all_of(
        written, [&](int slot) { return !grouping.plan.slots[at(slot)].external && readers[at(slot)] == 0; });
  });
}

}  // namespace

void clone_into(Grouping& grouping, std::size_t group, const Kernel& maker) {
  const int from = maker.stores[0].slot, to = static_cast<int>(grouping.plan.slots.size());
  grouping.plan.slots.push_back(Slot(grouping.plan.slots[at(from)]));
  grouping.plan.slots.back().external = false;
  Grouping::Group& into = grouping.groups[group];
  into.by = std::make_shared<Implementers>(*into.by);
  const auto redirect = [&](Kernel& kernel) {
    for (Access& load : kernel.loads)
      if (load.slot == from) load.slot = to;
    if (kernel.head)
      for (Operand& operand : kernel.head->operands)
        if (operand.slot == from) operand.slot = to;
  };
  for (Kernel& member : into.members) redirect(member);
  for (Choice& choice : into.by->choices) redirect(choice.kernel);
  Kernel clone = maker;
  clone.stores[0].slot = to;
  into.members.insert(into.members.begin(), std::move(clone));
}

void absorb(Grouping& grouping) {
  Neighbours neighbours(grouping);
  const auto absorb_one = [&](std::size_t& group) {
    if (!grouping.groups[group].by) return false;
    const GroupIndices others = neighbours.of(group);
    for (std::size_t other : others)
      if (const auto absorbed = absorb(grouping, group, other)) {
        neighbours.follow(group, other, *absorbed, others);
        group = absorbed->group;
        return true;
      }
    return false;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t g = 0; g < grouping.groups.size(); ++g)
      while (absorb_one(g)) changed = true;
  }
  drop_unread(grouping);
}

}  // namespace nixie::cuda
