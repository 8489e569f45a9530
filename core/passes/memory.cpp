// Memory: lifetimes to arena offsets, byte ranges to waits.
#include "nixie/core/passes/memory.h"

#include <algorithm>
#include <cstdint>
#include <functional>

namespace nixie {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Where waits cost more than memory, this much may be spent on slots of their own.
constexpr std::int64_t kRoomForOverlap = 64 << 20;

struct Lifetime {
  int slot = 0, first = 0, last = 0;
  std::int64_t bytes = 0;
  std::vector<int> kernels = {};  // that touch it
};

// Bit i of ancestors[j]: kernel j waits for kernel i, perhaps by way of others.
using Ancestors = std::vector<std::vector<std::uint64_t>>;

std::vector<Lifetime> lifetimes(const Plan& plan) {
  std::vector<Lifetime> all;
  std::vector<int> at(plan.slots.size(), -1);
  for (int k = 0; k < static_cast<int>(plan.kernels.size()); ++k)
    for (const auto& slots : {slots_read(plan.kernels[static_cast<std::size_t>(k)]),
                              slots_written(plan.kernels[static_cast<std::size_t>(k)])})
      for (int slot : slots) {
        const Slot& s = plan.slots[static_cast<std::size_t>(slot)];
        if (s.external) continue;
        int& index = at[static_cast<std::size_t>(slot)];
        if (index < 0) {
          index = static_cast<int>(all.size());
          all.push_back({slot, k, k, aligned(s.size_bytes())});
        }
        all[static_cast<std::size_t>(index)].last = k;
        all[static_cast<std::size_t>(index)].kernels.push_back(k);
      }
  return all;
}

bool meet_in_order(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Whether sharing bytes would make some kernel wait that need not.
bool meet_at_large(const Ancestors& ancestors, const Lifetime& a, const Lifetime& b) {
  const auto precedes = [&](const Lifetime& x, const Lifetime& y) {
    const auto& before = ancestors[static_cast<std::size_t>(y.first)];
    return std::all_of(x.kernels.begin(), x.kernels.end(), [&](int k) {
      return before[static_cast<std::size_t>(k) / 64] >> (static_cast<std::size_t>(k) % 64) & 1;
    });
  };
  return !precedes(a, b) && !precedes(b, a);
}

// Largest first, each at the lowest place where it overlaps nothing that it meets.
template <class Meet>
std::int64_t place(Plan& plan, std::vector<Lifetime> all, Meet meet) {
  std::sort(all.begin(), all.end(), [](const Lifetime& a, const Lifetime& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.slot < b.slot;
  });
  std::vector<Lifetime> placed;
  std::int64_t arena = 0;
  for (const Lifetime& life : all) {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Lifetime& other : placed)
      if (meet(other, life)) {
        const std::int64_t start = plan.slots[static_cast<std::size_t>(other.slot)].offset;
        taken.emplace_back(start, start + other.bytes);
      }
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const auto& [start, end] : taken) {
      if (offset + life.bytes <= start) break;
      offset = std::max(offset, end);
    }
    plan.slots[static_cast<std::size_t>(life.slot)].offset = offset;
    arena = std::max(arena, offset + life.bytes);
    placed.push_back(life);
  }
  return arena;
}

bool share_bytes(const Plan& plan, int a, int b) {
  if (a == b) return true;
  const Slot &x = plan.slots[static_cast<std::size_t>(a)], &y = plan.slots[static_cast<std::size_t>(b)];
  if (x.external || y.external) return false;
  return x.offset < y.offset + y.size_bytes() && y.offset < x.offset + x.size_bytes();
}

// Fills waits_for; `overlap` says which slots share bytes.
template <class Overlap>
Ancestors find_waits(Plan& plan, Overlap overlap) {
  const std::size_t count = plan.kernels.size();
  std::vector<std::vector<int>> reads, writes;
  for (const Kernel& kernel : plan.kernels) {
    reads.push_back(slots_read(kernel));
    writes.push_back(slots_written(kernel));
  }
  auto clash = [&](const std::vector<int>& a, const std::vector<int>& b) {
    for (int x : a)
      for (int y : b)
        if (overlap(x, y)) return true;
    return false;
  };
  const std::size_t words = (count + 63) / 64;
  Ancestors before(count, std::vector<std::uint64_t>(words, 0));
  for (std::size_t j = 0; j < count; ++j) {
    Kernel& kernel = plan.kernels[j];
    kernel.waits_for.clear();
    for (std::size_t i = j; i-- > 0;) {
      if (before[j][i / 64] >> (i % 64) & 1) continue;  // already implied
      if (!clash(writes[i], reads[j]) && !clash(writes[i], writes[j]) && !clash(reads[i], writes[j])) continue;
      kernel.waits_for.push_back(static_cast<int>(i));
      before[j][i / 64] |= std::uint64_t{1} << (i % 64);
      for (std::size_t w = 0; w < words; ++w) before[j][w] |= before[i][w];
    }
    std::reverse(kernel.waits_for.begin(), kernel.waits_for.end());
  }
  return before;
}

}  // namespace

std::vector<int> slots_read(const Kernel& kernel) {
  std::vector<int> slots;
  for (const Access& load : kernel.loads) slots.push_back(load.slot);
  if (kernel.head)
    for (const Operand& operand : kernel.head->operands) {
      slots.push_back(operand.slot);
      for (const Access& access : operand.more) slots.push_back(access.slot);
    }
  return slots;
}

std::vector<int> slots_written(const Kernel& kernel) {
  std::vector<int> slots;
  for (const Access& store : kernel.stores) slots.push_back(store.slot);
  return slots;
}

void plan_memory(Plan& plan, bool overlaps) {
  std::vector<Lifetime> all = lifetimes(plan);
  // A value made and used by the kernels of one Group stays inside it.
  for (const Group& group : plan.groups) {
    auto inside = [&](int kernel) { return std::count(group.kernels.begin(), group.kernels.end(), kernel) != 0; };
    std::erase_if(all, [&](const Lifetime& life) {
      for (int k = life.first; k <= life.last; ++k) {
        const Kernel& kernel = plan.kernels[static_cast<std::size_t>(k)];
        const auto read = slots_read(kernel), written = slots_written(kernel);
        const bool touches =
            std::count(read.begin(), read.end(), life.slot) || std::count(written.begin(), written.end(), life.slot);
        if (touches && !inside(k)) return false;
      }
      return true;
    });
  }
  const std::int64_t least = place(plan, all, meet_in_order);
  plan.arena_bytes = least;
  if (overlaps) {
    const Ancestors ancestors = find_waits(plan, std::equal_to<>());
    plan.arena_bytes =
        place(plan, all, [&](const Lifetime& a, const Lifetime& b) { return meet_at_large(ancestors, a, b); });
    if (plan.arena_bytes > least + kRoomForOverlap) plan.arena_bytes = place(plan, all, meet_in_order);
  }
  find_waits(plan, [&](int a, int b) { return share_bytes(plan, a, b); });
}

}  // namespace nixie
