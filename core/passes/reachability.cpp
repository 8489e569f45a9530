// Searches between two places of the order, and its repair.
#include "nixie/core/passes/reachability.h"

#include <algorithm>
#include <utility>

namespace nixie {
namespace {

constexpr std::int64_t kSpread = std::int64_t{1} << 32;  // between neighbours: room for those that are put between

}  // namespace

int Reachability::add(const std::set<int>& after) {
  const int added = static_cast<int>(nodes_.size());
  const std::int64_t place = first_ < 0 ? 0 : node(first_).place - kSpread;
  nodes_.push_back({.after = after, .place = place, .next = first_});
  if (first_ >= 0) node(first_).previous = added;
  first_ = added;
  int next = -1;  // the first of the longest chain
  for (int n : after) {
    node(n).before.insert(added);
    if (chain_of(n).first == n && (next < 0 || node(n).link < node(next).link)) next = n;
  }
  if (next < 0) {
    node(added).chain = static_cast<int>(chains_.size());
    chains_.push_back({.first = added});
  } else {
    node(added).chain = node(next).chain, node(added).link = node(next).link - 1;
    chain_of(added).first = added;
  }
  return added;
}

void Reachability::connect(int from, int to) {
  if (!node(from).after.insert(to).second) return;
  node(to).before.insert(from);
  if (node(from).place > node(to).place) repair(from, to);
}

void Reachability::merge(int into, int merged) {
  for (int next : std::exchange(node(merged).after, {})) {
    node(next).before.erase(merged);
    if (next != into) connect(into, next);
  }
  for (int earlier : std::exchange(node(merged).before, {})) {
    node(earlier).after.erase(merged);
    if (earlier != into) connect(earlier, into);
  }
}

Reachability::Side Reachability::side(int n) {
  node(n).visit = ++visits_;
  return {.visit = visits_, .found = {n}};
}

void Reachability::visit(Side& side, int n) {
  if (std::exchange(node(n).visit, side.visit) != side.visit) side.found.push_back(n);
}

// Moves all that reaches `from` before `to`, or all that `to` reaches behind `from`: whichever is found first.
void Reachability::repair(int from, int to) {
  Side early = side(from), late = side(to);
  while (!early.is_done() && !late.is_done()) {
    for (int earlier : node(early.take()).before)
      if (++followed_; node(earlier).place > node(to).place) visit(early, earlier);
    for (int next : node(late.take()).after)
      if (++followed_; node(next).place < node(from).place) visit(late, next);
  }
  if (early.is_done())
    insert(std::move(early.found), node(to).previous, to);
  else
    insert(std::move(late.found), from, node(from).next);
}

// Takes nodes from where they are in the order to between two neighbours.
void Reachability::insert(std::vector<int> moved, int previous, int next) {
  const auto link = [&](int a, int b) {
    if (a >= 0) node(a).next = b;
    if (b >= 0) node(b).previous = a;
    if (a < 0) first_ = b;
  };
  std::ranges::sort(moved, {}, [&](int n) { return node(n).place; });
  for (int n : moved) link(node(n).previous, node(n).next);
  const std::int64_t parts = std::ssize(moved) + 1;
  if (previous >= 0 && next >= 0) make_room(previous, parts);
  const std::int64_t step = previous < 0 || next < 0 ? kSpread : (node(next).place - node(previous).place) / parts;
  std::int64_t place = previous < 0 ? node(next).place - step * parts : node(previous).place;
  for (int n : moved) {
    node(n).place = place += step;
    link(previous, n);
    previous = n;
  }
  link(previous, next);
}

// Spreads nodes behind this one, as few as make room (Dietz and Sleator, Two algorithms for maintaining order in a
// list, 1987): their number grows with the square root of what they take.
void Reachability::make_room(int n, std::int64_t parts) {
  const std::int64_t first = node(n).place;
  std::int64_t count = 1;
  int end = node(n).next;
  for (; end >= 0 && node(end).place - first < count * count * parts; end = node(end).next) ++count;
  if (count == 1) return;
  const std::int64_t step = end < 0 ? kSpread : (node(end).place - first) / count;
  for (std::int64_t place = first; --count > 0; ++followed_) {
    n = node(n).next;
    node(n).place = place += step;
  }
}

void Reachability::mark_chain(int n, std::int64_t visit) {
  Chain& chain = chain_of(n);
  chain.link = chain.visit == visit ? std::max(chain.link, node(n).link) : node(n).link;
  chain.visit = visit;
}

bool Reachability::is_on_chain(int n, std::int64_t visit) {
  const Chain& chain = chain_of(n);
  return chain.visit == visit && node(n).link <= chain.link;
}

bool Reachability::search(int from, int goal, bool indirectly) {
  if (node(from).place >= node(goal).place) return false;
  Side ahead = side(from), behind = side(goal);
  const auto counts = [&](int a, int b) { return !(indirectly && a == from && b == goal) && ++followed_; };
  mark_chain(goal, behind.visit);
  for (int last : node(goal).before)
    if (counts(last, goal)) mark_chain(last, behind.visit);
  if (!indirectly && is_on_chain(from, behind.visit)) return true;
  while (!ahead.is_done() && !behind.is_done()) {
    const int n = ahead.take();
    for (int next : node(n).after) {
      if (!counts(n, next)) continue;
      if (node(next).visit == behind.visit || is_on_chain(next, behind.visit)) return true;
      if (node(next).place < node(goal).place) visit(ahead, next);
    }
    const int m = behind.take();
    for (int earlier : node(m).before) {
      if (!counts(earlier, m)) continue;
      if (node(earlier).visit == ahead.visit) return true;
      if (node(earlier).place > node(from).place) visit(behind, earlier);
    }
  }
  return false;
}

}  // namespace nixie
