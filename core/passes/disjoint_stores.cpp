// Compares what accesses touch along each axis of a slot.
#include "nixie/core/passes/disjoint_stores.h"

#include <algorithm>
#include <numeric>

#include "nixie/core/base/integer_math.h"

namespace nixie {

bool DisjointStores::meet(const Steps& a, const Steps& b) {
  if (a.first > b.last || b.first > a.last) return false;
  const std::int64_t step = a.step == b.step ? a.step : std::gcd(a.step, b.step);
  return step == 0 || (a.first - b.first) % step == 0;
}

bool DisjointStores::disjoint(const Store& a, const Store& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!meet(a[i], b[i])) return true;
  return false;
}

// Outermost in memory first; none where an access does not go along the axes.
DisjointStores::Store DisjointStores::steps_of(const Slot& slot, const Shape& domain, const Access& access) {
  if (slot.shape.size() == 0) return {};  // its strides are 0
  std::vector<int> axes;
  for (int axis = 0; axis < slot.shape.rank(); ++axis)
    if (slot.shape[axis] > 1) axes.push_back(axis);
  std::ranges::sort(axes, std::greater(), [&](int axis) { return slot.strides[at(axis)]; });
  const auto stride_of = [&](std::size_t i) { return slot.strides[at(axes[i])]; };
  std::int64_t start = access.offset;
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (!access.inside.empty()) start += access.inside[at(axis)].first * access.strides[at(axis)];
  if (start < 0) return {};
  Store all(axes.size());
  for (std::size_t i = 0; i < axes.size(); start %= stride_of(i++)) {
    all[i].first = all[i].last = start / stride_of(i);
    if (all[i].first >= slot.shape[axes[i]]) return {};
  }
  for (int axis = 0; axis < domain.rank(); ++axis) {
    const std::int64_t stride = access.strides[at(axis)],
                       count = access.inside.empty() ? domain[axis]
                                                     : access.inside[at(axis)].second - access.inside[at(axis)].first;
    if (stride == 0 || count <= 1) continue;
    std::size_t i = 0;
    while (i < axes.size() && stride_of(i) > stride) ++i;
    if (i == axes.size() || stride % stride_of(i) != 0) return {};  // backwards, too
    all[i].last += (count - 1) * (stride / stride_of(i));
    all[i].step = std::gcd(all[i].step, stride / stride_of(i));
    if (all[i].last >= slot.shape[axes[i]]) return {};
  }
  return all;
}

const std::vector<DisjointStores::Store>& DisjointStores::stores(int slot, std::size_t group) {
  const auto [found, fresh] = stores_.try_emplace({slot, group});
  if (!fresh) return found->second;
  for (const Kernel* kernel : groups_[group])
    for (const Access& access : kernel->stores) {
      if (access.slot != slot) continue;
      found->second.push_back(steps_of(plan_.slots[at(slot)], kernel->domain, access));
      if (found->second.back().empty()) return found->second = {};
    }
  return found->second;
}

// Two stores meet only if their first positions leave the same remainders modulo what divides all steps along an axis.
bool DisjointStores::operator()(int slot, std::size_t a, std::size_t b) {
  const std::vector<Store>&of_a = stores(slot, a), &of_b = stores(slot, b);
  if (of_a.empty() || of_b.empty()) return false;
  std::vector<std::int64_t> divisors(of_a[0].size());
  for (const auto* stores : {&of_a, &of_b})
    for (const Store& store : *stores)
      for (std::size_t i = 0; i < store.size(); ++i) divisors[i] = std::gcd(divisors[i], store[i].step);
  const auto remainders = [&](const Store& store) {
    std::vector<std::int64_t> found;
    for (std::size_t i = 0; i < store.size(); ++i)
      found.push_back(divisors[i] == 0 ? store[i].first : store[i].first % divisors[i]);
    return found;
  };
  std::map<std::vector<std::int64_t>, std::vector<const Store*>> alike;
  for (const Store& store : of_a) alike[remainders(store)].push_back(&store);
  return std::ranges::all_of(of_b, [&](const Store& y) {
    const auto found = alike.find(remainders(y));
    return found == alike.end() ||
           std::ranges::all_of(found->second, [&](const Store* x) { return ++compared_, disjoint(*x, y); });
  });
}

}  // namespace nixie
