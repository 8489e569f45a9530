// Reachability agrees with a search of all paths while random graphs grow and their nodes merge, and what it follows
// grows in proportion to the graph.
#include "nixie/core/passes/reachability.h"
#include "nixie/tests/test.h"

namespace nixie {
namespace {

using Edges = std::vector<std::set<int>>;  // of each node: its direct successors

bool leads(const Edges& after, int from, int goal, bool indirectly) {
  std::vector<int> left{from};
  std::set<int> seen;
  while (!left.empty()) {
    const int n = left.back();
    left.pop_back();
    for (int next : after[static_cast<std::size_t>(n)]) {
      if (indirectly && n == from && next == goal) continue;
      if (next == goal) return true;
      if (seen.insert(next).second) left.push_back(next);
    }
  }
  return false;
}

TEST(Reachability, IsThatOfAllPaths) {
  std::mt19937 random(5);
  const auto draw = [&](int count) { return std::uniform_int_distribution<int>(0, count - 1)(random); };
  for (int trial = 0; trial < 60; ++trial) {
    Reachability graph;
    Edges after;
    std::vector<int> nodes;
    const auto any = [&] { return nodes[static_cast<std::size_t>(draw(static_cast<int>(nodes.size())))]; };
    for (int change = 0; change < 60; ++change) {
      const int kind = nodes.size() < 4 ? 0 : draw(4);
      if (kind == 0) {
        std::set<int> next;
        for (int i = draw(3); i-- > 0 && !nodes.empty();) next.insert(any());
        nodes.push_back(graph.add(next));
        after.push_back(next);
        continue;
      }
      const int a = any(), b = any();
      if (a == b || leads(after, b, a, false)) continue;
      if (kind < 3) {
        graph.connect(a, b);
        after[static_cast<std::size_t>(a)].insert(b);
      } else if (!leads(after, a, b, true)) {
        graph.merge(a, b);
        std::set<int>& whole = after[static_cast<std::size_t>(a)];
        whole.merge(after[static_cast<std::size_t>(b)]);
        after[static_cast<std::size_t>(b)].clear();
        for (std::set<int>& next : after)
          if (next.erase(b)) next.insert(a);
        whole.erase(a);
        std::erase(nodes, b);
      }
    }
    for (int a : nodes) {
      EXPECT_EQ(graph.after(a), after[static_cast<std::size_t>(a)]);
      for (int b : nodes) {
        if (a == b) continue;
        EXPECT_EQ(graph.reaches(a, b), leads(after, a, b, false)) << a << " " << b;
        EXPECT_EQ(graph.reaches_indirectly(a, b), leads(after, a, b, true)) << a << " " << b;
      }
    }
  }
}

// A recurrence of so many steps and its gradient, from the last node to the first: each step leads to the next and to
// its own gradient, gradients lead back and into the update. Then each gradient takes in what only it reads.
std::int64_t followed_for(int steps) {
  Reachability graph;
  const int update = graph.add({});
  std::vector<int> gradients, own;
  for (int t = 0; t < steps; ++t)
    gradients.push_back(graph.add(t == 0 ? std::set{update} : std::set{gradients.back(), update}));
  int next = gradients.back();
  for (int t = steps; t-- > 0;) {
    const int gradient = gradients[static_cast<std::size_t>(t)];
    own.push_back(graph.add({gradient}));
    next = graph.add({next, own.back(), gradient});
    graph.connect(own.back(), update);
    EXPECT_EQ(graph.reaches_indirectly(next, gradient), true);
    EXPECT_EQ(graph.reaches(gradient, next), false);
  }
  for (int t = 0; t < steps; ++t) {
    const int gradient = gradients[static_cast<std::size_t>(steps - 1 - t)], part = own[static_cast<std::size_t>(t)];
    if (!graph.reaches_indirectly(part, gradient)) graph.merge(part, gradient);
  }
  return graph.followed();
}

TEST(Reachability, FollowsAsManyEdgesAsAGraphHas) {
  const std::int64_t few = followed_for(200), many = followed_for(1600);
  EXPECT_LE(many, 10 * few);
  EXPECT_LE(few, 200 * 40);
}

}  // namespace
}  // namespace nixie
