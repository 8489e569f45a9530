// Decides how much memory a step's values take (Plan::arena_bytes): lifetimes to arena offsets, byte ranges to waits.
// Scratch of programs comes on top (backends/cuda/run/executable.cpp); plan_too_large.h reports the excess.
#include "nixie/core/passes/memory.h"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/disjoint_stores.h"

namespace nixie {
namespace {

constexpr std::int64_t kAlignment = 256;

// The memory that slots of their own may cost to save waits.
constexpr std::int64_t kRoomForOverlap = 64 << 20;

// The slots that each group reads and writes.
struct Touched {
  std::vector<std::vector<int>> reads, writes;
};

Touched touched_by(const Plan& plan, bool replays_members) {
  Touched touched;
  for (const Group& group : plan.groups) {
    std::vector<int>&reads = touched.reads.emplace_back(group.reads),
    &writes = touched.writes.emplace_back(group.writes);
    if (!replays_members) continue;
    for (int k : group.members) {
      const std::vector<int> read = slots_read(plan.kernels[at(k)]), written = slots_written(plan.kernels[at(k)]);
      reads.insert(reads.end(), read.begin(), read.end());
      writes.insert(writes.end(), written.begin(), written.end());
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
  check(std::find(writes.begin(), writes.end(), slot) != writes.end(), "plan: \"",
        label_of(plan, plan.groups[at(group)]), "\" reads \"", plan.slots[at(slot)].name,
        "\" before anything is written there; please report this plan");
}

std::vector<Lifetime> lifetimes(const Plan& plan, const Touched& touched) {
  std::vector<Lifetime> all;
  std::vector<int> index_of(plan.slots.size(), -1);
  for (int g = 0; g < std::ssize(plan.groups); ++g)
    for (const auto* slots : {&touched.reads[at(g)], &touched.writes[at(g)]})
      for (int slot : *slots) {
        const Slot& s = plan.slots[at(slot)];
        if (s.external) continue;
        int& index = index_of[at(slot)];
        if (index < 0) {
          check_written(plan, touched, g, slot);
          index = static_cast<int>(all.size());
          all.push_back({slot, g, g, round_up(s.size_bytes(), kAlignment)});
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
    return std::all_of(x.groups.begin(), x.groups.end(), [&](int g) { return before[at(g) / 64] >> (at(g) % 64) & 1; });
  };
  return !precedes(a, b) && !precedes(b, a);
}

// Largest first, each at the lowest place where it overlaps nothing that it meets.
template <class Meet>
std::int64_t place(Plan& plan, std::vector<Lifetime> all, Meet meet) {
  std::sort(all.begin(), all.end(), [](const Lifetime& a, const Lifetime& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.slot < b.slot;
  });
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
    const auto behind = std::upper_bound(placed.begin(), placed.end(), offset,
                                         [](std::int64_t start, const Placed& other) { return start < other.start; });
    placed.insert(behind, {offset, offset + life.bytes, &life});
  }
  return arena;
}

bool share_bytes(const Plan& plan, int a, int b) {
  if (a == b) return true;
  const Slot &x = plan.slots[at(a)], &y = plan.slots[at(b)];
  if (x.external || y.external) return false;
  return x.offset < y.offset + y.size_bytes() && y.offset < x.offset + x.size_bytes();
}

// Whether two groups write to different elements of a slot.
bool writes_are_disjoint(const Plan& plan, std::size_t i, std::size_t j, int slot) {
  const auto members = [&](std::size_t g) {
    std::vector<const Kernel*> kernels;
    for (int k : plan.groups[g].members) kernels.push_back(&plan.kernels[at(k)]);
    return kernels;
  };
  return stores_are_disjoint(plan, slot, members(i), members(j));
}

// Fills waits_for; `overlap` says which slots share bytes.
template <class Overlap>
Ancestors find_waits(Plan& plan, const Touched& touched, Overlap overlap) {
  const std::size_t count = plan.groups.size();
  const auto& [reads, writes] = touched;
  auto clash = [&](const std::vector<int>& a, const std::vector<int>& b) {
    for (int x : a)
      for (int y : b)
        if (overlap(x, y)) return true;
    return false;
  };
  auto both_write = [&](std::size_t i, std::size_t j) {
    for (int x : writes[i])
      for (int y : writes[j])
        if (overlap(x, y) && !(x == y && writes_are_disjoint(plan, i, j, x))) return true;
    return false;
  };
  const std::size_t words = (count + 63) / 64;
  Ancestors before(count, std::vector<std::uint64_t>(words, 0));
  for (std::size_t j = 0; j < count; ++j) {
    std::vector<int>& waits_for = plan.groups[j].waits_for;
    waits_for.clear();
    for (std::size_t i = j; i-- > 0;) {
      if (before[j][i / 64] >> (i % 64) & 1) continue;  // already implied
      if (!clash(writes[i], reads[j]) && !clash(reads[i], writes[j]) && !both_write(i, j)) continue;
      waits_for.push_back(static_cast<int>(i));
      before[j][i / 64] |= std::uint64_t{1} << (i % 64);
      for (std::size_t w = 0; w < words; ++w) before[j][w] |= before[i][w];
    }
    std::reverse(waits_for.begin(), waits_for.end());
  }
  return before;
}

}  // namespace

void plan_memory(Plan& plan, const Target& target) {
  complete_groups(plan);
  const Touched touched = touched_by(plan, target.replays_members);
  const std::vector<Lifetime> all = lifetimes(plan, touched);
  const std::int64_t least = place(plan, all, live_together);
  plan.arena_bytes = least;
  if (target.overlaps) {
    const Ancestors ancestors = find_waits(plan, touched, std::equal_to<>());
    plan.arena_bytes =
        place(plan, all, [&](const Lifetime& a, const Lifetime& b) { return may_run_together(ancestors, a, b); });
    if (plan.arena_bytes > least + kRoomForOverlap) plan.arena_bytes = place(plan, all, live_together);
  }
  find_waits(plan, touched, [&](int a, int b) { return share_bytes(plan, a, b); });
}

}  // namespace nixie
