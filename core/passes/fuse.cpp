// Fuse: decides which computations share a kernel: bias and ReLU join their convolution, for example.
//
// Users first: a computation joins the kernel of one of its users, so that values are computed where they are used.
// Then kernels over the same domain that read each other or the same memory merge. No step may close a cycle.
#include "nixie/core/passes/fuse.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <ranges>
#include <set>
#include <utility>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/passes/fusion_graph.h"
#include "nixie/core/passes/kernel_builder.h"
#include "nixie/core/passes/reachability.h"

namespace nixie {
namespace {

// Keep kernels compilable and their arguments few. One that reduces also keeps sums of all of its positions.
constexpr std::size_t kMostUnits = 256, kMostOfReduction = 64;

Shape without(const Shape& domain, const Axes& axes) {
  Shape kept = domain;
  for (int axis : axes) kept = kept.with(axis, 1);
  return kept;
}

}  // namespace

class Fuser {
 public:
  Fuser(FusionGraph& units, const KernelBuilder& builder, Fusion fusion)
      : units_(units),
        builder_(builder),
        fusion_(fusion),
        group_of_(units.all().size(), -1),
        follows_head_(units.all().size()),
        out_(units.all().size()),
        in_(units.all().size()) {
    for (const Edge& edge : units.edges()) {
      out_[at(edge.from)].push_back(edge);
      in_[at(edge.to)].push_back(edge);
    }
  }

  std::vector<FusedGroup> run() {
    const auto by_order = [&](int u) { return std::pair(unit(u).order, u); };
    std::vector<int> users_first(units_.all().size());
    std::iota(users_first.begin(), users_first.end(), 0);
    std::ranges::sort(users_first, std::greater(), by_order);
    for (int u : std::views::reverse(users_first)) follows_head_[at(u)] = follows_head(u);
    for (int u : users_first) place(u);
    while (merge_pass()) {
    }
    std::vector<FusedGroup> result;
    for (FusedGroup& group : groups_) {
      if (group.units.empty()) continue;
      std::ranges::sort(group.units, {}, by_order);
      result.push_back(std::move(group));
    }
    return result;
  }

 private:
  enum class Role { none, full, kept };

  const FusionNode& unit(int u) const { return units_.all()[at(u)]; }
  const std::vector<Edge>& into(int u) const { return in_[at(u)]; }
  const std::vector<Edge>& out_of(int u) const { return out_[at(u)]; }
  int group_of(int u) const { return group_of_[at(u)]; }
  FusedGroup& group(int g) { return groups_[at(g)]; }

  bool fits(std::size_t units, const Axes& reduced) const {
    if (fusion_ == Fusion::none) return units <= 1;
    return units <= (reduced.empty() ? kMostUnits : kMostOfReduction);
  }

  // The role of a unit in a kernel over this domain; none if it cannot be there.
  Role role(const FusionNode& u, const Shape& domain, const Axes& reduced) const {
    if (u.kind == FusionNode::Kind::reduce) return u.domain == domain && u.axes == reduced ? Role::kept : Role::none;
    if (u.domain == domain) return Role::full;
    const bool random = is_a<Random>(u.value);
    // A copy brings a reduced value to its place in a concat.
    const bool follows = u.kind == FusionNode::Kind::map || u.kind == FusionNode::Kind::copy;
    const bool kept = follows && !random && !reduced.empty() && u.domain == without(domain, reduced);
    return kept ? Role::kept : Role::none;
  }

  // The axes over which u's shape is the domain's reduced, if it is.
  static std::optional<Axes> reduced_axes(const Shape& domain, const Shape& shape) {
    if (domain.rank() != shape.rank()) return {};
    Axes axes;
    for (int axis = 0; axis < domain.rank(); ++axis) {
      if (domain[axis] == shape[axis]) continue;
      if (shape[axis] != 1) return {};
      axes.push_back(axis);
    }
    return axes;
  }

  // Whether a value of kept shape comes from a reduction of the whole domain, so that it belongs inside its kernel.
  bool from_reduction(int u, const Shape& domain, const Axes& axes) const {
    std::vector<int> stack{u};
    std::set<int> seen{u};
    while (!stack.empty()) {
      const int next = stack.back();
      stack.pop_back();
      const FusionNode& found = unit(next);
      if (found.kind == FusionNode::Kind::reduce && found.domain == domain && found.axes == axes) return true;
      if (found.kind != FusionNode::Kind::map) continue;
      for (const Edge& edge : into(next))
        if (edge.kind == EdgeKind::direct && seen.insert(edge.from).second) stack.push_back(edge.from);
    }
    return false;
  }

  // Whether a value is made of a head's, position by position, before any reduction. Known for all that it reads.
  bool follows_head(int u) const {
    if (unit(u).kind != FusionNode::Kind::map) return unit(u).kind == FusionNode::Kind::head;
    const auto follows = [&](const Edge& edge) {
      return edge.kind == EdgeKind::direct && follows_head_[at(edge.from)];
    };
    const auto reads_reduced = [](const Edge& edge) { return edge.kind == EdgeKind::expand; };
    return std::ranges::any_of(into(u), follows) && std::ranges::none_of(into(u), reads_reduced);
  }

  // Whether u should stay behind its head (a convolution, say, whose epilogue it then is) and not join the reducing
  // kernel g. It stays if u is stored either way, as in g the head's result would have to be stored as well. It also
  // stays if several stages of g would each compute it again from two arrays.
  bool leave_to_head(int u, int g) {
    if (group(g).reduced.empty() || unit(u).kind != FusionNode::Kind::map || !follows_head_[at(u)]) return false;
    if (builder_.is_root(u)) return true;
    const auto& users = out_of(u);
    return (users.size() > 1 && reads_beside_head(u)) ||
           std::ranges::any_of(users, [&](const Edge& edge) { return group_of(edge.to) != g; });
  }

  // Whether a value that follows a head is made of another array of its size, too: a gate, a residual.
  bool reads_beside_head(int u) {
    const std::vector<Tensor>& inputs = unit(u).inputs();
    return std::ranges::any_of(inputs, [&](const Tensor& x) {
      if (is_a<Constant, Expand>(x)) return false;
      const int input = units_.of(x);
      return input < 0 || unit(input).kind != FusionNode::Kind::head;
    });
  }

  // Whether what group g does can follow a head that it reads through a reshape: position by position of the head's
  // result, if all that g reads and stores can be seen from there.
  bool can_follow(int g, int head) {
    const FusedGroup& target = group(g);
    const Shape& domain = unit(head).domain;
    if (target.head || !target.reduced.empty() || target.domain.size() != domain.size()) return false;
    const auto sees = [&](const View& view) { return compose(view, Reshape{}, domain).has_value(); };
    const auto reads = [&](const Tensor& x) {
      if (is_a<Constant>(x)) return true;
      if (const int from = units_.of(x); from >= 0 && group_of(from) == g) return true;
      if (is_a<Reshape>(x) && units_.of(x.inputs()[0]) == head) return true;
      return sees(units_.source(x).view);
    };
    return std::ranges::all_of(target.units, [&](int u) {
      const FusionNode& member = unit(u);
      const bool is_part = member.kind == FusionNode::Kind::copy && units_.part(u);
      const bool by_position = is_a<Random, Coordinate>(member.value);
      return (member.kind == FusionNode::Kind::map || is_part) && !by_position && sees(units_.stored(u)) &&
             std::ranges::all_of(member.inputs(), reads);
    });
  }

  // An exchange is a kernel by itself: what it is fused with could keep it, and so those behind it, from starting.
  static bool is_exchange(const FusionNode& unit) {
    return unit.kind == FusionNode::Kind::head && is_a<Collective>(unit.value);
  }
  bool exchanges(const FusedGroup& group) const { return is_exchange(unit(group.units.front())); }

  bool can_join(int u, int g) {
    const FusedGroup& target = group(g);
    const FusionNode& joining = unit(u);
    if (is_exchange(joining) || exchanges(target)) return false;
    Axes reduced = target.reduced;
    if (!fits(target.units.size() + 1, reduced)) return false;
    if (joining.kind == FusionNode::Kind::head && (target.head || !reduced.empty())) return false;
    const bool is_followed = joining.kind == FusionNode::Kind::head && joining.domain != target.domain;
    if (is_followed) {
      if (!can_follow(g, u)) return false;
    } else if (joining.domain != target.domain ||
               joining.kind == FusionNode::Kind::reduce) {  // brings or needs reduced axes
      const auto axes = joining.kind == FusionNode::Kind::reduce && joining.domain == target.domain
                            ? std::optional(joining.axes)
                            : reduced_axes(target.domain, joining.domain);
      if (!axes || axes->empty() || target.head || !(reduced.empty() || reduced == *axes)) return false;
      if (reduced.empty() && !from_reduction(u, target.domain, *axes)) return false;
      reduced = *axes;
      if (!fits(target.units.size() + 1, reduced)) return false;
    }
    if (role(joining, is_followed ? joining.domain : target.domain, reduced) == Role::none) return false;
    std::set<int> others;
    for (const Edge& edge : out_of(u)) {
      const int user = group_of(edge.to);
      if (user == g && (edge.kind == EdgeKind::load || (edge.kind == EdgeKind::reshaped && !is_followed))) return false;
      if (user != g) others.insert(user);
    }
    return std::ranges::none_of(others, [&](int other) { return order_.reaches(other, g); });
  }

  void place(int u) {
    std::set<int, std::greater<>> candidates;
    for (const Edge& edge : out_of(u))
      if (edge.kind != EdgeKind::load) candidates.insert(group_of(edge.to));
    int home = -1;
    for (int g : candidates)
      if (home < 0 && !leave_to_head(u, g) && can_join(u, g)) home = g;
    const FusionNode& placed = unit(u);
    std::set<int> users;
    for (const Edge& edge : out_of(u)) users.insert(group_of(edge.to));
    if (home < 0) {
      home = order_.add(users);
      groups_.push_back({.domain = placed.domain});
    } else {
      for (int user : users)
        if (user != home) order_.connect(home, user);
    }
    FusedGroup& target = group(home);
    target.units.push_back(u);
    if (placed.kind == FusionNode::Kind::head) target.head = true, target.domain = placed.domain;
    if (target.reduced.empty()) {
      if (placed.kind == FusionNode::Kind::reduce)
        target.reduced = placed.axes;
      else if (placed.domain != target.domain)
        target.reduced = *reduced_axes(target.domain, placed.domain);
    }
    group_of_[at(u)] = home;
  }

  // Large values a group reads from memory.
  std::set<const Node*> read_by(int g) {
    std::set<const Node*> bases;
    for (int u : group(g).units) {
      if (unit(u).kind == FusionNode::Kind::head) continue;
      for (const Tensor& x : unit(u).inputs()) {
        if (x.shape() != group(g).domain || is_a<Constant>(x)) continue;
        if (units_.of(x) >= 0) {
          if (group_of(units_.of(x)) != g) bases.insert(x.id());
        } else if (!is_a<Expand>(x)) {
          bases.insert(units_.source(x).written.id());
        }
      }
    }
    return bases;
  }

  bool can_merge(int p, int c, bool related) {
    FusedGroup &first = group(p), &second = group(c);
    if ((first.head && second.head) || exchanges(first) || exchanges(second)) return false;
    Shape domain = first.domain;
    Axes reduced = first.reduced;
    if (second.domain == domain) {
      if (!reduced.empty() && !second.reduced.empty() && reduced != second.reduced) return false;
      if (reduced.empty()) reduced = second.reduced;
    } else if (reduced.empty() || second.head || !second.reduced.empty() || second.domain != without(domain, reduced)) {
      return false;
    }
    if ((first.head || second.head) && (!reduced.empty() || !related)) return false;
    if (!fits(first.units.size() + second.units.size(), reduced)) return false;
    for (int g : {p, c})
      for (int u : group(g).units)
        if (role(unit(u), domain, reduced) == Role::none) return false;
    for (int u : first.units)
      for (const Edge& edge : out_of(u))
        if (group_of(edge.to) == c && edge.kind == EdgeKind::load) return false;
    return !order_.reaches_indirectly(p, c) && !order_.reaches(c, p);
  }

  void merge(int p, int c) {
    FusedGroup &first = group(p), &second = group(c);
    if (first.reduced.empty() && second.domain == first.domain) first.reduced = second.reduced;
    first.head |= second.head;
    for (int u : second.units) group_of_[at(u)] = p;
    first.units.insert(first.units.end(), second.units.begin(), second.units.end());
    second.units.clear();
    order_.merge(p, c);
  }
  bool merge_pass() {
    bool any = false;
    for (int p = static_cast<int>(groups_.size()) - 1; p >= 0; --p) {
      const std::vector<int> users(order_.after(p).begin(), order_.after(p).end());
      for (int c : users)
        if (!group(p).units.empty() && !group(c).units.empty() && order_.after(p).count(c) && can_merge(p, c, true)) {
          merge(p, c);
          any = true;
        }
    }
    return merge_siblings() || any;
  }

  bool merge_siblings() {
    bool any = false;
    std::map<std::int64_t, std::vector<int>> readers;  // of a value, by its number
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g)
      if (!group(g).units.empty() && !group(g).head)
        for (const Node* base : read_by(g)) readers[base->number].push_back(g);
    for (const auto& [number, list] : readers)
      for (std::size_t i = 0; i + 1 < list.size(); ++i)
        for (std::size_t j = i + 1; j < list.size(); ++j) {
          const int p = list[i], c = list[j];
          if (group(p).units.empty() || group(c).units.empty() || group(p).domain != group(c).domain ||
              !can_merge(p, c, false))
            continue;
          merge(p, c);
          any = true;
        }
    return any;
  }

  FusionGraph& units_;
  const KernelBuilder& builder_;
  const Fusion fusion_;
  std::vector<FusedGroup> groups_;
  Reachability order_;  // of groups: from those that write a value to those that read it
  std::vector<int> group_of_;
  std::vector<char> follows_head_;
  std::vector<std::vector<Edge>> out_, in_;
};

namespace {

// Orders groups so that inputs come first; what only ends in Variables runs as soon as it can, to free its inputs.
std::vector<int> schedule(const std::vector<std::set<int>>& after, const std::vector<char>& sink) {
  std::vector<int> waiting(after.size(), 0), order;
  for (const auto& users : after)
    for (int user : users) ++waiting[at(user)];
  using Entry = std::pair<int, int>;  // sinks first, then the order of the graph
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  auto offer = [&](int g) { ready.push({sink[at(g)] ? 0 : 1, g}); };
  for (std::size_t g = 0; g < after.size(); ++g)
    if (waiting[g] == 0) offer(static_cast<int>(g));
  while (!ready.empty()) {
    const int g = ready.top().second;
    ready.pop();
    order.push_back(g);
    for (int user : after[at(g)])
      if (--waiting[at(user)] == 0) offer(user);
  }
  check(order.size() == after.size(), "fuse: the kernels wait for each other in a cycle; this is a bug in nixie");
  return order;
}

}  // namespace

Plan fuse(const Graph& graph, const Layout& layout, Fusion fusion) {
  FusionGraph units(graph, layout);
  KernelBuilder builder(graph, layout, units);  // claims root units, adds copies for the others
  units.connect();
  std::vector<FusedGroup> groups = Fuser(units, builder, fusion).run();
  std::ranges::sort(groups, {}, [&](const FusedGroup& group) {
    const int first = group.units.front();
    return std::pair(units.all()[at(first)].order, first);
  });
  std::vector<std::set<int>> after = builder.place(groups);
  return builder.build(groups, schedule(after, builder.sinks()));
}

}  // namespace nixie
