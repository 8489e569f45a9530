// Compares what accesses touch along each axis of a slot.
#include "nixie/core/passes/disjoint_stores.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "nixie/core/base/integer_math.h"

namespace nixie {
namespace {

// Positions along an axis: from `first` to at most `last`, `step` apart or a multiple of it; one position has step 0.
struct Steps {
  std::int64_t first = 0, last = 0, step = 0;
};

bool meet(const Steps& a, const Steps& b) {
  const std::int64_t step = std::gcd(a.step, b.step);
  return a.first <= b.last && b.first <= a.last && (step == 0 || (a.first - b.first) % step == 0);
}

// The steps along the slot's axes, outermost in memory first; none if an access does not follow the axes.
std::optional<std::vector<Steps>> steps_of(const Slot& slot, const Shape& domain, const Access& access) {
  if (slot.shape.size() == 0) return {};  // its strides are 0
  std::vector<int> axes;
  for (int axis = 0; axis < slot.shape.rank(); ++axis)
    if (slot.shape[axis] > 1) axes.push_back(axis);
  std::sort(axes.begin(), axes.end(), [&](int a, int b) { return slot.strides[at(a)] > slot.strides[at(b)]; });
  const auto stride_of = [&](std::size_t i) { return slot.strides[at(axes[i])]; };
  std::int64_t start = access.offset;
  for (int axis = 0; axis < domain.rank(); ++axis)
    if (!access.inside.empty()) start += access.inside[at(axis)].first * access.strides[at(axis)];
  if (start < 0) return {};
  std::vector<Steps> all(axes.size());
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

bool disjoint(const Slot& slot, const Kernel& a, const Access& of_a, const Kernel& b, const Access& of_b) {
  const auto x = steps_of(slot, a.domain, of_a), y = steps_of(slot, b.domain, of_b);
  if (!x || !y) return false;
  for (std::size_t i = 0; i < x->size(); ++i)
    if (!meet((*x)[i], (*y)[i])) return true;
  return false;
}

}  // namespace

bool stores_are_disjoint(const Plan& plan, int slot, const std::vector<const Kernel*>& a,
                         const std::vector<const Kernel*>& b) {
  const auto stores = [&](const std::vector<const Kernel*>& kernels, const auto& act) {
    bool any = false, all = true;
    for (const Kernel* kernel : kernels)
      for (const Access& store : kernel->stores)
        if (store.slot == slot) any = true, all = all && act(*kernel, store);
    return any && all;
  };
  return stores(a, [&](const Kernel& kernel, const Access& store) {
    return stores(b, [&](const Kernel& other, const Access& of_other) {
      return disjoint(plan.slots[at(slot)], kernel, store, other, of_other);
    });
  });
}

}  // namespace nixie
