// FusionGraph: finds the computations of a graph, the copies it needs, and the edges between them.
#include "nixie/core/passes/fusion_graph.h"

#include <algorithm>

#include "nixie/core/passes/simplify.h"

namespace nixie {
namespace {

FusionNode copy_of(const Tensor& x, std::int64_t order) {
  return {.kind = FusionNode::Kind::copy, .value = x, .domain = x.shape(), .order = order, .copied = {x}};
}

}  // namespace

Reading reading_of(const FusionNode& unit) {
  if (unit.kind != FusionNode::Kind::head) return Reading::any;
  return std::holds_alternative<Collective>(unit.value.node().op) ? Reading::dense : Reading::unbounded;
}

FusionGraph::FusionGraph(const Graph& graph, const Layout& layout) : layout_(layout) {
  for (const Tensor& x : topological(graph)) {
    const Op& op = x.node().op;
    // Odd orders are left for copies, which follow what they copy.
    const std::int64_t order = 2 * x.node().number;
    if (is_view(op) || std::holds_alternative<Constant>(op) || std::holds_alternative<Input>(op)) continue;
    if (const auto* concat = std::get_if<Concat>(&op)) {
      std::int64_t start = 0;
      for (const Tensor& input : x.inputs()) {
        const int unit = static_cast<int>(units_.size());
        parts_of_[x.id()].push_back(unit);
        part_.emplace(unit, Part{x, start});
        units_.push_back(copy_of(input, order));
        start += input.shape()[concat->axis];
      }
      continue;
    }
    unit_of_.emplace(x.id(), static_cast<int>(units_.size()));
    FusionNode unit{.value = x, .domain = x.shape(), .order = order};
    if (const auto* reduce = std::get_if<Reduce>(&op)) {
      unit.kind = FusionNode::Kind::reduce;
      unit.domain = x.inputs()[0].shape();
      unit.axes = reduce->axes;
    } else if (is_head(op)) {
      unit.kind = FusionNode::Kind::head;
    }
    units_.push_back(std::move(unit));
  }
}

int FusionGraph::of(const Tensor& x) const {
  const auto found = unit_of_.find(x.id());
  return found == unit_of_.end() ? -1 : found->second;
}

int FusionGraph::copy(const Tensor& x) {
  units_.push_back(copy_of(x, 2 * x.node().number + 1));
  return static_cast<int>(units_.size()) - 1;
}

std::optional<FusionGraph::Part> FusionGraph::part(int unit) const {
  const auto found = part_.find(unit);
  return found == part_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<int> FusionGraph::writers(const Source& source) const {
  if (source.copy >= 0) return {source.copy};
  if (const int unit = of(source.base); unit >= 0) return {unit};
  const auto parts = parts_of_.find(source.base.id());
  return parts == parts_of_.end() ? std::vector<int>{} : parts->second;
}

Source FusionGraph::copied(const Tensor& x, const Strides& strides) {
  const auto [found, fresh] = copy_of_.try_emplace({x.id(), strides}, 0);
  if (fresh) strides_of_copy_[found->second = copy(x)] = strides;
  return {x, found->second, whole(x.shape(), strides)};
}

bool FusionGraph::suits(const View& view, const Tensor& x, Reading reading) const {
  if (reading == Reading::any) return true;
  if (reading == Reading::unbounded) return view.inside.empty();
  const Strides dense = layout_.strides(x);
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (x.shape()[axis] != 1 && view.strides[at] != dense[at]) return false;
  }
  return view.inside.empty();
}

Source FusionGraph::source(const Tensor& x, Reading reading) {
  std::vector<Tensor> views;  // from x down to what is stored
  Tensor base = x;
  for (; is_view(base.node().op); base = base.inputs()[0]) views.push_back(base);
  Source source = std::holds_alternative<Constant>(base.node().op)
                      ? copied(base, base.shape().row_major())
                      : Source{base, -1, whole(base.shape(), layout_.strides(base))};
  for (auto at = views.rbegin(); at != views.rend(); ++at) {
    std::optional<View> view = compose(source.view, at->node().op, at->shape());
    if (!view) {  // strides cannot say it: copy the view's input, in its layout if strides can say that
      const Tensor& below = at->inputs()[0];
      const Strides laid_out = layout_.strides(below);
      const bool composes = compose(whole(below.shape(), laid_out), at->node().op, at->shape()).has_value();
      source = copied(below, composes ? laid_out : below.shape().row_major());
      view = compose(source.view, at->node().op, at->shape());
    }
    source.view = *view;
  }
  return suits(source.view, x, reading) ? source : copied(x, layout_.strides(x));
}

std::optional<Tensor> FusionGraph::claimable(const Tensor& root, const Strides& strides) const {
  Tensor x = root;
  while (std::holds_alternative<Reshape>(x.node().op)) x = x.inputs()[0];
  const bool computed = unit_of_.count(x.id()) || parts_of_.count(x.id());
  const bool reshaped = x.id() != root.id();
  const bool fits = layout_.strides(x) == (reshaped ? x.shape().row_major() : strides) &&
                    (!reshaped || strides == root.shape().row_major());
  return computed && fits ? std::optional(x) : std::nullopt;
}

void FusionGraph::connect() {
  // Asking for sources may add copies, which have inputs of their own.
  for (std::size_t to = 0; to < units_.size(); ++to) {
    const bool head = units_[to].kind == FusionNode::Kind::head;
    const std::vector<Tensor> inputs = units_[to].inputs();
    for (const Tensor& x : inputs) {
      if (std::holds_alternative<Constant>(x.node().op) && !head) continue;
      const auto edge = [&](int from, EdgeKind kind) { edges_.push_back({from, static_cast<int>(to), kind}); };
      const bool expands = std::holds_alternative<Expand>(x.node().op);
      if (!head && of(x) >= 0) {
        edge(of(x), EdgeKind::direct);
      } else if (!head && expands && of(x.inputs()[0]) >= 0) {
        edge(of(x.inputs()[0]), EdgeKind::expand);
      } else {
        for (int from : writers(source(x, reading_of(units_[to])))) edge(from, EdgeKind::load);
      }
    }
  }
  // Every rank runs its collectives in the order of their numbers.
  std::map<std::int64_t, int> collectives;
  for (const auto& [node, unit] : unit_of_)
    if (const auto* op = std::get_if<Collective>(&node->op)) collectives.emplace(op->number, unit);
  int before = -1;
  for (const auto& [number, unit] : collectives) {
    check(before < 0 || all()[static_cast<std::size_t>(before)].order < all()[static_cast<std::size_t>(unit)].order,
          "fuse: the graph's collectives are not in order; call order_collectives first");
    if (before >= 0) edges_.push_back({before, unit, EdgeKind::load});
    before = unit;
  }
}

}  // namespace nixie
