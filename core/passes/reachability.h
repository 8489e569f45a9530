// Whether one kernel must wait for another, in a graph of groups and those that come right after each.
#pragma once

#include <utility>
#include <vector>

namespace nixie {

/// Whether `goal` comes after `from`; `except` is a direct follower of `from` that does not count. `after[g]` holds
/// what comes right after g.
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
