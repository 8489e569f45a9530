// Decides how much memory a step's values take (Plan::arena_bytes): lifetimes to arena offsets, byte ranges to waits.
// Scratch of programs comes on top (backends/cuda/run/executable.cpp); plan_too_large.h reports the excess.
#include "nixie/core/passes/memory.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/disjoint_stores.h"

namespace nixie {
namespace {

constexpr std::int64_t kAlignment = 256;

// The memory that slots of their own may cost to save waits.
constexpr std::int64_t kRoomForOverlap = 64 << 20;

// The slots that each group reads and writes, each once.
struct Touched {
  std::vector<std::vector<int>> reads, writes;
};

Touched touched_by(const Plan& plan, bool replays_members) {
  Touched touched;
  for (const Group& group : plan.groups) {
    std::vector<int>&reads = touched.reads.emplace_back(group.reads),
    &writes = touched.writes.emplace_back(group.writes);
    if (replays_members)
      for (int k : group.members) {
        const std::vector<int> read = slots_read(plan.kernels[at(k)]), written = slots_written(plan.kernels[at(k)]);
        reads.insert(reads.end(), read.begin(), read.end());
        writes.insert(writes.end(), written.begin(), written.end());
      }
    for (auto* slots : {&reads, &writes}) {
      std::sort(slots->begin(), slots->end());
      slots->erase(std::unique(slots->begin(), slots->end()), slots->end());
    }
  }
  return touched;
}

struct Lifetime {
  int slot = 0, first = 0, last = 0;
  std::int64_t bytes = 0;
  std::vector<int> groups = {};  // that touch it
};

// Bit i of ancestors[j]: group j waits for group i, perhaps by way of others.
using Ancestors = std::vector<std::vector<std::uint64_t>>;

// Groups run in order, so what the first of them to touch a slot reads there must be its own.
void check_written(const Plan& plan, const Touched& touched, int group, int slot) {
  const std::vector<int>& writes = touched.writes[at(group)];
  check(std::ranges::find(writes, slot) != writes.end(), "plan: \"", label_of(plan, plan.groups[at(group)]),
        "\" reads \"", plan.slots[at(slot)].name, "\" before anything is written there; please report this plan");
}

// The slot whose bytes each slot takes: its own, or that of what stays in place.
std::vector<int> homes_of(const Plan& plan) {
  std::vector<int> homes(plan.slots.size());
  std::iota(homes.begin(), homes.end(), 0);
  for (const Kernel& kernel : plan.kernels)
    if (stays_in_place(plan, kernel)) homes[at(kernel.stores[0].slot)] = homes[at(kernel.head->operands[0].slot)];
  return homes;
}

// Those of slots that are their own home.
std::vector<Lifetime> lifetimes(const Plan& plan, const Touched& touched, const std::vector<int>& homes) {
  std::vector<Lifetime> all;
  std::vector<int> index_of(plan.slots.size(), -1);
  for (int g = 0; g < std::ssize(plan.groups); ++g)
    for (const auto* slots : {&touched.reads[at(g)], &touched.writes[at(g)]})
      for (int slot : *slots) {
        const Slot& s = plan.slots[at(slot)];
        if (s.external) continue;
        int& index = index_of[at(homes[at(slot)])];
        if (index < 0) {
          check_written(plan, touched, g, slot);
          index = static_cast<int>(all.size());
          all.push_back({homes[at(slot)], g, g, round_up(s.size_bytes(), kAlignment)});
        }
        all[at(index)].last = g;
        all[at(index)].groups.push_back(g);
      }
  return all;
}

bool live_together(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Whether sharing bytes would make a group wait that need not.
bool may_run_together(const Ancestors& ancestors, const Lifetime& a, const Lifetime& b) {
  const auto precedes = [&](const Lifetime& x, const Lifetime& y) {
    const auto& before = ancestors[at(y.first)];
    return std::ranges::all_of(x.groups, [&](int g) { return before[at(g) / 64] >> (at(g) % 64) & 1; });
  };
  return !precedes(a, b) && !precedes(b, a);
}

// Largest first, each at the lowest place where it overlaps nothing that it meets.
template <class Meet>
std::int64_t place(Plan& plan, std::vector<Lifetime> all, Meet meet) {
  std::ranges::sort(all, {}, [](const Lifetime& life) { return std::pair(-life.bytes, life.slot); });
  struct Placed {
    std::int64_t start, end;
    const Lifetime* life;
  };
  std::vector<Placed> placed;  // by start
  std::int64_t arena = 0;
  for (const Lifetime& life : all) {
    std::int64_t offset = 0;
    for (const Placed& other : placed) {
      if (offset + life.bytes <= other.start) break;
      if (offset < other.end && meet(*other.life, life)) offset = other.end;
    }
    plan.slots[at(life.slot)].offset = offset;
    arena = std::max(arena, offset + life.bytes);
    const auto behind = std::ranges::upper_bound(placed, offset, {}, &Placed::start);
    placed.insert(behind, {offset, offset + life.bytes, &life});
  }
  return arena;
}

// The bytes of each slot in the arena, from the first to behind the last; none of external slots.
std::vector<std::pair<std::int64_t, std::int64_t>> bytes_of_slots(const Plan& plan) {
  std::vector<std::pair<std::int64_t, std::int64_t>> bytes;
  for (const Slot& slot : plan.slots)
    bytes.push_back(slot.external ? std::pair<std::int64_t, std::int64_t>()
                                  : std::pair(slot.offset, slot.offset + slot.size_bytes()));
  return bytes;
}

DisjointStores stores_of_groups(const Plan& plan) {
  std::vector<std::vector<const Kernel*>> members(plan.groups.size());
  for (std::size_t g = 0; g < members.size(); ++g)
    for (int k : plan.groups[g].members) members[g].push_back(&plan.kernels[at(k)]);
  return {plan, std::move(members)};
}

// Whether each group is a collective. The ranks run these in one order.
std::vector<bool> collectives_of(const Plan& plan) {
  std::vector<bool> found;
  for (const Group& group : plan.groups)
    found.push_back(std::ranges::any_of(group.members, [&](int k) {
      const auto& head = plan.kernels[at(k)].head;
      return head && std::holds_alternative<Collective>(head->op);
    }));
  return found;
}

// Whether each slot is one that a collective reads or writes.
std::vector<bool> exchanged_slots(const Plan& plan, const Touched& touched) {
  const std::vector<bool> collective = collectives_of(plan);
  std::vector<bool> exchanged(plan.slots.size());
  for (std::size_t g = 0; g < collective.size(); ++g)
    if (collective[g])
      for (const auto* slots : {&touched.reads[g], &touched.writes[g]})
        for (int slot : *slots) exchanged[at(slot)] = true;
  return exchanged;
}

// Fills waits_for; `overlap` says which slots share bytes.
template <class Overlap>
Ancestors find_waits(Plan& plan, const Touched& touched, DisjointStores& are_disjoint, Overlap overlap) {
  const std::size_t count = plan.groups.size();
  const auto& [reads, writes] = touched;
  const auto any_pair = [](const std::vector<int>& a, const std::vector<int>& b, const auto& clash) {
    return std::ranges::any_of(a, [&](int x) { return std::ranges::any_of(b, [&](int y) { return clash(x, y); }); });
  };
  const auto both_write = [&](std::size_t i, std::size_t j) {
    return any_pair(writes[i], writes[j],
                    [&](int x, int y) { return overlap(x, y) && !(x == y && are_disjoint(x, i, j)); });
  };
  const std::vector<bool> collective = collectives_of(plan);
  const std::size_t words = (count + 63) / 64;
  Ancestors before(count, std::vector<std::uint64_t>(words, 0));
  for (std::size_t j = 0; j < count; ++j) {
    std::vector<int>& waits_for = plan.groups[j].waits_for;
    waits_for.clear();
    for (std::size_t w = j / 64 + 1; w-- > 0;) {
      std::uint64_t left = w == j / 64 ? (std::uint64_t{1} << (j % 64)) - 1 : ~std::uint64_t{0};
      while (left &= ~before[j][w]) {  // those that are not implied
        const int bit = std::bit_width(left) - 1;
        const std::size_t i = w * 64 + static_cast<std::size_t>(bit);
        left ^= std::uint64_t{1} << bit;
        if (!(collective[i] && collective[j]) && !any_pair(writes[i], reads[j], overlap) &&
            !any_pair(reads[i], writes[j], overlap) && !both_write(i, j))
          continue;
        waits_for.push_back(static_cast<int>(i));
        before[j][w] |= std::uint64_t{1} << bit;
        for (std::size_t earlier = 0; earlier <= w; ++earlier) before[j][earlier] |= before[i][earlier];
      }
    }
    std::ranges::reverse(waits_for);
  }
  return before;
}

}  // namespace

void plan_memory(Plan& plan, const Target& target) {
  complete_groups(plan);
  const Touched touched = touched_by(plan, target.replays_members);
  const std::vector<int> homes = homes_of(plan);
  const std::vector<Lifetime> all = lifetimes(plan, touched, homes);
  const std::int64_t least = place(plan, all, live_together);
  plan.arena_bytes = least;
  DisjointStores are_disjoint = stores_of_groups(plan);
  if (target.overlaps) {
    const Ancestors ancestors = find_waits(plan, touched, are_disjoint, std::equal_to<>());
    const auto together = [&](const Lifetime& a, const Lifetime& b) { return may_run_together(ancestors, a, b); };
    plan.arena_bytes = place(plan, all, together);
    // The slots of an exchange share no memory with kernels that may run beside it, so none waits for it.
    const std::vector<bool> exchanged = exchanged_slots(plan, touched);
    if (plan.arena_bytes > least + kRoomForOverlap)
      plan.arena_bytes = place(plan, all, [&](const Lifetime& a, const Lifetime& b) {
        return exchanged[at(a.slot)] || exchanged[at(b.slot)] ? together(a, b) : live_together(a, b);
      });
  }
  for (std::size_t slot = 0; slot < homes.size(); ++slot) plan.slots[slot].offset = plan.slots[at(homes[slot])].offset;
  find_waits(plan, touched, are_disjoint, [bytes = bytes_of_slots(plan)](int a, int b) {
    return a == b || (bytes[at(a)].first < bytes[at(b)].second && bytes[at(b)].first < bytes[at(a)].second);
  });
}

}  // namespace nixie
