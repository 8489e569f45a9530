// Merges launches of small kernels whose programs differ only in numbers, such as the updates of a net's parameters.
#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "nixie/backends/cuda/families/collective.h"
#include "nixie/backends/cuda/rewrite/lower.h"
#include "nixie/backends/cuda/rewrite/touched.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"
#include "nixie/core/passes/disjoint_stores.h"

namespace nixie::cuda {
namespace {

// The most that a kernel may read and write: above it the time is that of memory, not of the launch.
constexpr std::int64_t kMostBytes = 16 << 20;
// By what share the bytes in use at a time may grow because of kernels that wait for others; and what they may grow by
// where they are few.
constexpr double kMoreMemory = 1.02, kMoreBytes = 4 << 20;

using Nodes = std::set<std::size_t>;

// A set of groups as bits.
class Bits {
 public:
  explicit Bits(std::size_t size = 0) : words_((size + 63) / 64) {}
  bool operator[](std::size_t i) const { return words_[i / 64] >> (i % 64) & 1; }
  void add(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void add(const Bits& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }

 private:
  std::vector<std::uint64_t> words_;
};

DisjointStores stores_of_groups(const Grouping& grouping) {
  std::vector<std::vector<const Kernel*>> members(grouping.groups.size());
  for (std::size_t g = 0; g < members.size(); ++g)
    for (const Kernel& kernel : grouping.groups[g].members) members[g].push_back(&kernel);
  return {grouping.plan, std::move(members)};
}

// The partial order of groups, some of them merged: a node is the first group of those that are one.
class PartialOrder {
 public:
  PartialOrder(const Grouping& grouping, const std::vector<Touched>& touched)
      : users_(touched.size()), makers_(touched.size()), merged_(touched.size()), node_(touched.size()) {
    // For each slot: its last writers, each to elements of its own, its readers since, and both before these writers.
    std::map<int, Nodes> writers, readers, earlier;
    DisjointStores are_disjoint = stores_of_groups(grouping);
    std::optional<std::size_t> exchanged;  // the last collective: all ranks run these in one order
    for (std::size_t g = 0; g < touched.size(); ++g) {
      node_[g] = g, merged_[g] = {g};
      Nodes before;
      for (int slot : touched[g].reads) before.insert(writers[slot].begin(), writers[slot].end());
      for (int slot : touched[g].writes) {
        const bool apart = readers[slot].empty() && !writers[slot].empty() &&
                           std::ranges::all_of(writers[slot], [&](std::size_t w) { return are_disjoint(slot, w, g); });
        if (!apart) {
          earlier[slot] = std::move(writers[slot]);
          earlier[slot].merge(readers[slot]);
          writers[slot].clear(), readers[slot].clear();
        }
        before.insert(earlier[slot].begin(), earlier[slot].end());
        writers[slot].insert(g);
      }
      for (int slot : touched[g].reads) readers[slot].insert(g);
      if (grouping.groups[g].by && grouping.groups[g].by->choices.front().family == &collective()) {
        if (exchanged) before.insert(*exchanged);
        exchanged = g;
      }
      before.erase(g);
      for (std::size_t b : before) makers_[g].insert(b), users_[b].insert(g);
    }
    ancestors_.assign(touched.size(), Bits(touched.size()));
    first_.resize(touched.size()), last_.resize(touched.size());
    for (std::size_t g = 0; g < touched.size(); ++g)
      for (std::size_t b : makers_[g]) {
        first_[g] = std::max(first_[g], first_[b] + 1);
        ancestors_[g].add(b), ancestors_[g].add(ancestors_[b]);
      }
    const int end = first_.empty() ? 0 : *std::ranges::max_element(first_);
    for (std::size_t g = touched.size(); g-- > 0;) {
      last_[g] = end;
      for (std::size_t u : users_[g]) last_[g] = std::min(last_[g], last_[u] - 1);
    }
  }

  /// Makes two nodes one, if that closes no cycle and makes no chain of groups longer than the longest.
  bool merge(std::size_t a, std::size_t b) {
    if (ancestors_[a][b] || ancestors_[b][a]) return false;
    if (std::max(first_[a], first_[b]) > std::min(last_[a], last_[b])) return false;
    for (std::size_t g : merged_[b]) node_[g] = a, merged_[a].push_back(g);
    for (std::size_t u : users_[b]) makers_[u].erase(b), makers_[u].insert(a), users_[a].insert(u);
    for (std::size_t m : makers_[b]) users_[m].erase(b), users_[m].insert(a), makers_[a].insert(m);
    users_[b].clear(), makers_[b].clear();
    ancestors_[a].add(ancestors_[b]);
    for (Bits& before : ancestors_)
      if (before[a] || before[b]) before.add(ancestors_[a]), before.add(a), before.add(b);
    not_before(a, std::max(first_[a], first_[b]));
    not_after(a, std::min(last_[a], last_[b]));
    return true;
  }

  /// The nodes in an order that is one, each about where the first of its groups was: what waits behind it is not late.
  std::vector<std::vector<std::size_t>> in_order() const {
    std::vector<std::size_t> waits(node_.size());
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t n = 0; n < node_.size(); ++n) {
      waits[n] = makers_[n].size();
      if (node_[n] == n && waits[n] == 0) ready.push(n);
    }
    std::vector<std::vector<std::size_t>> order;
    while (!ready.empty()) {
      const std::size_t n = ready.top();
      ready.pop();
      order.push_back(merged_[n]);
      std::ranges::sort(order.back());
      for (std::size_t u : users_[n])
        if (--waits[u] == 0) ready.push(u);
    }
    return order;
  }

 private:
  void not_before(std::size_t node, int first) {
    first_[node] = first;
    for (std::vector<std::size_t> moved{node}; !moved.empty();) {
      const std::size_t n = moved.back();
      moved.pop_back();
      for (std::size_t u : users_[n])
        if (first_[u] <= first_[n]) first_[u] = first_[n] + 1, moved.push_back(u);
    }
  }
  void not_after(std::size_t node, int last) {
    last_[node] = last;
    for (std::vector<std::size_t> moved{node}; !moved.empty();) {
      const std::size_t n = moved.back();
      moved.pop_back();
      for (std::size_t m : makers_[n])
        if (last_[m] >= last_[n]) last_[m] = last_[n] - 1, moved.push_back(m);
    }
  }

  std::vector<Nodes> users_, makers_;
  std::vector<std::vector<std::size_t>> merged_;
  std::vector<std::size_t> node_;  // of a group
  std::vector<Bits> ancestors_;    // of a node: the groups before it
  std::vector<int> first_, last_;  // the places that a node may have in the longest chains
};

// The most bytes of the arena that programs use at a time.
std::int64_t peak_bytes(const Grouping& grouping, const std::vector<std::vector<std::size_t>>& order) {
  const Plan& plan = grouping.plan;
  std::map<int, std::pair<std::size_t, std::size_t>> lives;
  for (std::size_t place = 0; place < order.size(); ++place)
    for (std::size_t g : order[place]) {
      const Choice& choice = grouping.groups[g].by->choices.front();
      for (const auto& slots : {slots_read(choice), slots_written(choice)})
        for (int slot : slots)
          if (!plan.slots[at(slot)].external) lives.try_emplace(slot, place, place).first->second.second = place;
    }
  std::vector<std::int64_t> change(order.size() + 1);
  for (const auto& [slot, life] : lives) {
    change[life.first] += plan.slots[at(slot)].size_bytes();
    change[life.second + 1] -= plan.slots[at(slot)].size_bytes();
  }
  std::int64_t now = 0, peak = 0;
  for (std::int64_t bytes : change) peak = std::max(peak, now += bytes);
  return peak;
}

// A kernel that may share a launch.
struct Candidate {
  std::size_t group = 0;
  OneLaunch launch = {};
};
using Candidates = std::map<std::string, std::vector<Candidate>>;  // by pattern

std::int64_t traffic(const Plan& plan, const Kernel& kernel) {
  std::int64_t bytes = 0;
  for (const auto* accesses : {&kernel.loads, &kernel.stores})
    for (const Access& access : *accesses) {
      std::int64_t elements = 1;
      for (int axis = 0; axis < kernel.domain.rank(); ++axis)
        if (access.strides[at(axis)] != 0) elements *= kernel.domain[axis];
      bytes += elements * size_of(dtype_of(plan, access.slot));
    }
  return bytes;
}

Candidates find_candidates(const Grouping& grouping) {
  Candidates found;
  const Plan apart = with_slots_apart(grouping.plan);
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    const Grouping::Group& group = grouping.groups[g];
    if (group.members.size() != 1 || group.by->choices.size() != 1) continue;
    const Choice& choice = group.by->choices.front();
    if (choice.kernel.head || traffic(grouping.plan, choice.kernel) > kMostBytes) continue;
    std::optional<OneLaunch> launch = choice.family->one_launch(apart, choice);
    if (!launch || launch->blocks == 0) continue;
    const std::string pattern = pattern_of(*launch);
    found[pattern].push_back({g, *std::move(launch)});
  }
  return found;
}

// Merges candidates of one pattern, each with the first of its part of the plan that it can be one with.
PartialOrder share(PartialOrder order, const std::vector<Candidate>& candidates, std::size_t parts) {
  std::vector<OneLaunch> launches;
  for (const Candidate& candidate : candidates) launches.push_back(candidate.launch);
  const std::size_t most = most_in_one_launch(launches), in_part = ceil_div(candidates.size(), parts);
  std::vector<Nodes> shared;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i % in_part == 0) shared.clear();
    const std::size_t group = candidates[i].group;
    const bool joins = std::ranges::any_of(shared, [&](Nodes& nodes) {
      if (nodes.size() >= most || !order.merge(*nodes.begin(), group)) return false;
      return nodes.insert(group).second;
    });
    if (!joins) shared.push_back({group});
  }
  return order;
}

}  // namespace

void share_launches(Grouping& grouping) {
  const Candidates candidates = find_candidates(grouping);
  std::vector<Touched> touched;
  for (const Grouping::Group& group : grouping.groups) touched.emplace_back(group);
  const PartialOrder alone(grouping, touched);
  const auto peak = [&](const PartialOrder& order) {
    return static_cast<double>(peak_bytes(grouping, order.in_order()));
  };
  const double allowed = std::max(kMoreMemory * peak(alone), peak(alone) + kMoreBytes);
  // One launch for all keeps what the last of them stores from the first one on; several, one for each part of the
  // plan, keep less.
  PartialOrder order = alone;
  for (const auto& [pattern, all] : candidates)
    for (std::size_t parts = 1; parts < all.size(); parts *= 2)
      if (PartialOrder with = share(order, all, parts); peak(with) <= allowed) {
        order = std::move(with);
        break;
      }

  std::vector<Grouping::Group> groups;
  for (const std::vector<std::size_t>& merged : order.in_order()) {
    Grouping::Group whole = std::move(grouping.groups[merged[0]]);
    if (merged.size() > 1) whole.by = std::make_shared<Implementers>(*whole.by);
    for (std::size_t i = 1; i < merged.size(); ++i) {
      const Grouping::Group& part = grouping.groups[merged[i]];
      whole.members.push_back(part.members.front());
      whole.by->choices.front().beside.push_back(part.by->choices.front());
    }
    groups.push_back(std::move(whole));
  }
  grouping.groups = std::move(groups);
}

}  // namespace nixie::cuda
