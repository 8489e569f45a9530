// DisjointStores: whether groups of kernels store to different elements of a slot, so that they need not wait for each
// other: phases of a gradient, parts of a concatenation.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "nixie/core/graph/plan.h"

namespace nixie {

class DisjointStores {
 public:
  /// `groups`: the members of each.
  DisjointStores(const Plan& plan, std::vector<std::vector<const Kernel*>> groups)
      : plan_(plan), groups_(std::move(groups)) {}

  /// Whether no element of the slot is stored by both groups. False where that is not certain, or where one stores
  /// nothing there.
  bool operator()(int slot, std::size_t a, std::size_t b);
  /// How many pairs of stores were compared so far.
  std::int64_t compared() const { return compared_; }

 private:
  // Positions along an axis: from `first` to at most `last`, `step` apart or a multiple of it; one position has step 0.
  struct Steps {
    std::int64_t first = 0, last = 0, step = 0;
  };
  using Store = std::vector<Steps>;  // along the slot's axes
  static bool meet(const Steps& a, const Steps& b);
  static bool disjoint(const Store& a, const Store& b);
  static Store steps_of(const Slot& slot, const Shape& domain, const Access& access);
  const std::vector<Store>& stores(int slot, std::size_t group);

  const Plan& plan_;
  std::vector<std::vector<const Kernel*>> groups_;
  std::map<std::pair<int, std::size_t>, std::vector<Store>> stores_;  // of a group to a slot; none: not certain
  std::int64_t compared_ = 0;
};

}  // namespace nixie
