// Makes sums of gradients that follow each other one call of several arrays.
#include <algorithm>

#include "nixie/backends/cuda/families/collective.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/touched.h"
#include "nixie/core/base/integer_math.h"

namespace nixie::cuda {
namespace {

using Groups = std::vector<Grouping::Group>;

bool is_collective(const Kernel& kernel) { return kernel.head && std::holds_alternative<Collective>(kernel.head->op); }

/// The ranks that a group's sums are over; none for another group.
const Communicator* summing(const Grouping::Group& group) {
  const Kernel& kernel = group.members.front();
  const auto* op = is_collective(kernel) ? &std::get<Collective>(kernel.head->op) : nullptr;
  return op && op->kind == CollectiveKind::all_reduce ? op->communicator.get() : nullptr;
}

std::int64_t bytes_of(const Grouping& grouping, const Grouping::Group& group) {
  std::int64_t bytes = 0;
  for (const Kernel& kernel : group.members)
    bytes += kernel.domain.size() * size_of(grouping.plan.slots[at(kernel.stores[0].slot)].dtype);
  return bytes;
}

// Which of the groups (first, last] wait for the first one, perhaps by way of others.
std::vector<bool> waiting_for(const Groups& groups, std::size_t first, std::size_t last) {
  Touched before(groups[first]);
  std::vector<bool> waits;
  for (std::size_t g = first + 1; g <= last; ++g) {
    const Touched own(groups[g]);
    waits.push_back(own.meets(before));
    if (!waits.back()) continue;
    before.reads.insert(own.reads.begin(), own.reads.end());
    before.writes.insert(own.writes.begin(), own.writes.end());
  }
  return waits;
}

// Moves the collective `first` to that of `next`, and what waits for it behind both. Returns their place, or nothing
// where the second waits for the first.
std::optional<std::size_t> join(Groups& groups, std::size_t first, std::size_t next) {
  const std::vector<bool> waits = waiting_for(groups, first, next);
  if (waits.back()) return {};
  Groups before, behind;
  for (std::size_t g = first + 1; g < next; ++g)
    (waits[g - first - 1] ? behind : before).push_back(std::move(groups[g]));
  Grouping::Group both = std::move(groups[first]);
  auto by = std::make_shared<Implementers>(*both.by);
  by->choices.front().beside.push_back(groups[next].by->choices.front());
  both.by = std::move(by);
  both.members.push_back(groups[next].members.front());
  auto to = std::move(before.begin(), before.end(), groups.begin() + static_cast<std::ptrdiff_t>(first));
  const auto place = static_cast<std::size_t>(to - groups.begin());
  *to++ = std::move(both);
  to = std::move(behind.begin(), behind.end(), to);
  groups.erase(to);
  return place;
}

}  // namespace

void bucket_collectives(Grouping& grouping, std::int64_t least_bytes) {
  Groups& groups = grouping.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Communicator* const ranks = summing(groups[g]);
    if (!ranks) continue;
    std::int64_t bytes = bytes_of(grouping, groups[g]);
    for (std::size_t next = g + 1; next < groups.size() && bytes < least_bytes; ++next) {
      if (!is_collective(groups[next].members.front())) continue;
      if (summing(groups[next]) != ranks) break;
      const std::int64_t more = bytes_of(grouping, groups[next]);
      const auto place = join(groups, g, next);
      if (!place) break;
      bytes += more;
      g = next = *place;
    }
  }
}

}  // namespace nixie::cuda
