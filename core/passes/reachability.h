// Reachability in a graph of groups and their direct successors: whether one must wait for another.
#pragma once

#include <utility>
#include <vector>

namespace nixie {

/// Whether `goal` is reachable from `from`; `except` is a direct successor of `from` that does not count. `after[g]`
/// holds the direct successors of g.
template <class Followers>
bool reaches(const std::vector<Followers>& after, int from, int goal, int except = -1) {
  std::vector<int> stack{from};
  std::vector<char> seen(after.size(), 0);
  while (!stack.empty()) {
    const int at = stack.back();
    stack.pop_back();
    for (int next : after[static_cast<std::size_t>(at)]) {
      if (at == from && next == except) continue;
      if (next == goal) return true;
      if (!std::exchange(seen[static_cast<std::size_t>(next)], 1)) stack.push_back(next);
    }
  }
  return false;
}

}  // namespace nixie
