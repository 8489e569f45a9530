// Touched: the slots that a group reads and writes, by its program or its members.
#pragma once

#include <set>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// The slots of the group's chosen program, if any, and of its members.
struct Touched {
  explicit Touched(const Grouping::Group& group);
  /// Whether the two may not change places: one writes what the other reads or writes.
  bool meets(const Touched& other) const;
  std::set<int> reads, writes;
};

}  // namespace nixie::cuda
