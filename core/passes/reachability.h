// Reachability: a graph without cycles that grows and whose nodes merge; whether one node must wait for another.
//
// Nodes have an order in which each edge leads forward. A new edge that leads back repairs it between the edge's ends
// alone (after Pearce and Kelly, A dynamic topological sort algorithm for directed acyclic graphs, 2006). Searches stay
// between the places of both ends, from which they advance by turns. Nodes are in chains, in which each has a path to
// those behind it: what reaches a chain need not be followed along it. An unrolled recurrence is one chain of all its
// steps and their gradients.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace nixie {

class Reachability {
 public:
  /// A node before all others, with edges to these. Returns its number: 0, 1, ...
  int add(const std::set<int>& after);
  /// An edge, which must close no cycle.
  void connect(int from, int to);
  /// Moves the edges of `merged` to `into`. Neither may reach the other by way of a third.
  void merge(int into, int merged);

  /// Whether a node reaches another.
  bool reaches(int from, int goal) { return search(from, goal, false); }
  /// Whether it does by way of a third.
  bool reaches_indirectly(int from, int goal) { return search(from, goal, true); }

  /// The direct successors.
  const std::set<int>& after(int n) const { return nodes_[static_cast<std::size_t>(n)].after; }
  /// How many edges all searches and repairs have followed.
  std::int64_t followed() const { return followed_; }

 private:
  struct Node {
    std::set<int> after = {}, before = {};
    std::int64_t place = 0;        // grows along the order
    int next = -1, previous = -1;  // in the order
    int chain = 0;                 // whose paths stay when nodes merge
    std::int64_t link = 0;         // the place in the chain
    std::int64_t visit = 0;        // the last that came here
  };
  struct Chain {
    int first = 0;           // which a new node may precede
    std::int64_t visit = 0;  // the last whose goal a link of the chain reaches
    std::int64_t link = 0;   // the last such link
  };
  // The nodes that are found from one end.
  struct Side {
    std::int64_t visit = 0;
    std::vector<int> found = {};
    std::size_t taken = 0;
    bool is_done() const { return taken == found.size(); }
    int take() { return found[taken++]; }
  };
  Node& node(int n) { return nodes_[static_cast<std::size_t>(n)]; }
  Chain& chain_of(int n) { return chains_[static_cast<std::size_t>(node(n).chain)]; }
  Side side(int n);
  void visit(Side& side, int n);
  bool search(int from, int goal, bool indirectly);
  void mark_chain(int n, std::int64_t visit);
  bool is_on_chain(int n, std::int64_t visit);
  void repair(int from, int to);
  void insert(std::vector<int> moved, int previous, int next);
  void make_room(int n, std::int64_t parts);

  std::vector<Node> nodes_;
  std::vector<Chain> chains_;
  int first_ = -1;  // of the order
  std::int64_t visits_ = 0, followed_ = 0;
};

}  // namespace nixie
