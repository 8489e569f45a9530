// Collects the slots that a group reads and writes, from its first choice and all its members.
#include "nixie/backends/cuda/rewrite/touched.h"

#include <algorithm>

#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {

Touched::Touched(const Grouping::Group& group) {
  const auto add = [&](const std::vector<int>& read, const std::vector<int>& written) {
    reads.insert(read.begin(), read.end());
    writes.insert(written.begin(), written.end());
  };
  if (group.by) add(slots_read(group.by->choices.front()), slots_written(group.by->choices.front()));
  for (const Kernel& member : group.members) add(nixie::slots_read(member), nixie::slots_written(member));
}

bool Touched::meets(const Touched& other) const {
  const auto overlap = [](const std::set<int>& a, const std::set<int>& b) {
    return std::ranges::any_of(a, [&](int slot) { return b.contains(slot); });
  };
  return overlap(writes, other.reads) || overlap(writes, other.writes) || overlap(reads, other.writes);
}

}  // namespace nixie::cuda
