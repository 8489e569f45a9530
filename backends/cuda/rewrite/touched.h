// Touched: the slots that a group reads and writes, however it runs.
#pragma once

#include <set>

#include "nixie/backends/cuda/families/family.h"

namespace nixie::cuda {

/// By the program that was chosen for the group, if one was, and by its members.
struct Touched {
  explicit Touched(const Grouping::Group& group);
  std::set<int> reads, writes;
};

}  // namespace nixie::cuda
