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
  std::vector<int> seen;  // few, so that nothing of the graph's size is made for a search
  std::vector<char> all;  // once they are many
  const auto see = [&](int g) {
    constexpr std::size_t kFew = 16;
    if (all.empty() && seen.size() < kFew) {
      for (int s : seen)
        if (s == g) return false;
      seen.push_back(g);
      return true;
    }
    if (all.empty()) {
      all.assign(after.size(), 0);
      for (int s : seen) all[static_cast<std::size_t>(s)] = 1;
    }
    return !std::exchange(all[static_cast<std::size_t>(g)], 1);
  };
  while (!stack.empty()) {
    const int at = stack.back();
    stack.pop_back();
    for (int next : after[static_cast<std::size_t>(at)]) {
      if (at == from && next == except) continue;
      if (next == goal) return true;
      if (see(next)) stack.push_back(next);
    }
  }
  return false;
}

}  // namespace nixie
