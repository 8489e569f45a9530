// FusionGraph: finds the computations of a graph, the copies it needs, and the edges between them.
#include "nixie/core/passes/fusion_graph.h"

#include <algorithm>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/state/graph_walk.h"

namespace nixie {
namespace {

FusionNode copy_of(const Tensor& x, std::int64_t order) {
  return {.kind = FusionNode::Kind::copy, .value = x, .domain = x.shape(), .order = order, .copied = {x}};
}

bool is_computation(const Tensor& x) { return !is_view(x) && !is_a<Constant, Input, Concat>(x); }

// The view of a part, which is x, from the positions of what x views; none where x is no view or strides cannot say it.
std::optional<View> seen_through(const View& view, const Tensor& x) {
  if (is_a<Reshape>(x)) return compose(view, x.node().op, x.inputs()[0].shape());
  const auto* permute = op_as<Permute>(x);
  if (!permute) return {};
  return compose(view, Permute{inverse(permute->order)}, x.inputs()[0].shape());
}

}  // namespace

Reading reading_of(const FusionNode& unit) {
  if (unit.kind != FusionNode::Kind::head) return Reading::any;
  return is_a<Collective>(unit.value) ? Reading::dense : Reading::unbounded;
}

FusionGraph::FusionGraph(const Graph& graph, const Layout& layout) : layout_(layout) {
  const std::vector<Tensor> order_of_graph = topological(graph);
  for (const Tensor& x : order_of_graph)
    for (const Tensor& input : x.inputs()) ++readers_[input.id()];
  for (const Tensor& output : graph.outputs) ++readers_[output.id()];
  for (const Trace::Set& set : graph.sets) ++readers_[set.value.id()];
  for (auto x = order_of_graph.rbegin(); x != order_of_graph.rend(); ++x)
    if (is_head(*x) || (is_view(*x) && read_by_heads_.count(x->id())))
      for (const Tensor& input : x->inputs()) read_by_heads_.insert(input.id());
  // Outer concats first: they may take over the parts of those inside.
  for (auto x = order_of_graph.rbegin(); x != order_of_graph.rend(); ++x)
    if (is_a<Concat>(*x) && !inner_.count(x->id())) {
      add_parts(*x);
      shape_alike(parts_of_.at(x->id()));
    }
  for (const Tensor& x : order_of_graph) {
    // Odd orders are left for copies, which follow what they copy.
    const std::int64_t order = 2 * x.node().number;
    if (!is_computation(x)) continue;
    unit_of_.emplace(x.id(), static_cast<int>(units_.size()));
    FusionNode unit{.value = x, .domain = x.shape(), .order = order};
    if (const auto* reduce = op_as<Reduce>(x)) {
      unit.kind = FusionNode::Kind::reduce;
      unit.domain = x.inputs()[0].shape();
      unit.axes = reduce->axes;
    } else if (is_head(x)) {
      unit.kind = FusionNode::Kind::head;
    }
    units_.push_back(std::move(unit));
  }
}

// Whether kernels can read x at this place in a concat as fast as in a slot of its own: in pieces of 16 bytes, and not
// as the operand of a head, which wants its channels dense.
bool FusionGraph::can_be_read_at(const View& view, const Tensor& x) const {
  const auto piece = static_cast<std::int64_t>(16 / size_of(x.dtype()));
  bool is_aligned = view.shape == x.shape() && view.offset % piece == 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t stride = view.strides[at(axis)];
    is_aligned &= x.shape()[axis] == 1 || stride == 1 || stride % piece == 0;
  }
  return is_aligned && !read_by_heads_.count(x.id());
}

// A part that is a view is stored from what it views: a computation's own kernel, or the parts of another concat. If
// others read that inner concat, too, they read it inside the outer one.
void FusionGraph::add_parts(const Tensor& concat) {
  struct Placed {
    Tensor value;
    View view;
    bool is_read_otherwise;
    std::int64_t order;
    std::optional<std::size_t> first = {};  // of the parts of an inner concat, behind these
  };
  std::vector<int>& parts = parts_of_[concat.id()];
  std::vector<Placed> left;  // the next one last
  left.push_back({concat, whole(concat.shape(), layout_.strides(concat)), false, 2 * concat.node().number});
  while (!left.empty()) {
    auto [value, view, is_read_otherwise, order, first] = std::move(left.back());
    left.pop_back();
    if (first) {
      home_.emplace(value.id(), Home{{concat, std::move(view)}, *first, parts.size()});
      continue;
    }
    while (const std::optional<View> below = seen_through(view, value)) {
      view = *below;
      value = value.inputs()[0];
      is_read_otherwise |= readers_.at(value.id()) > 1;
    }
    const auto* inner = op_as<Concat>(value);
    if (inner && (!is_read_otherwise || (can_be_read_at(view, value) && !inner_.count(value.id())))) {
      inner_.insert(value.id());
      if (is_read_otherwise) {
        order = 2 * value.node().number;
        left.push_back({value, view, true, order, parts.size()});
      }
      std::int64_t end = value.shape()[inner->axis];
      for (auto input = value.inputs().rbegin(); input != value.inputs().rend(); ++input) {
        View part = view;
        part.shape = input->shape();
        end -= input->shape()[inner->axis];
        part.offset += end * view.strides[at(inner->axis)];
        left.push_back({*input, std::move(part), readers_.at(input->id()) > 1, order});
      }
      continue;
    }
    parts.push_back(static_cast<int>(units_.size()));
    part_.emplace(parts.back(), Part{concat, std::move(view)});
    units_.push_back(copy_of(value, order));
  }
}

// Gives parts that are taken from memory the shape of one that is computed, so that they may share its kernel.
void FusionGraph::shape_alike(const std::vector<int>& parts) {
  const auto value_of = [&](int unit) -> const Tensor& { return units_[at(unit)].value; };
  const auto is_computed = [&](int unit) { return is_computation(value_of(unit)); };
  const auto model = std::ranges::find_if(parts, is_computed);
  if (model == parts.end()) return;
  const Shape shape = value_of(*model).shape();
  for (int unit : parts) {
    FusionNode& part = units_[at(unit)];
    if (is_computed(unit) || part.domain == shape || part.domain.size() != shape.size()) continue;
    const std::optional<View> view = compose(part_.at(unit).view, Reshape{}, shape);
    if (!view || !compose(source(part.value).view, Reshape{}, shape)) continue;
    part_.at(unit).view = *view;
    part = copy_of(Tensor::make(Reshape{}, {part.value}, shape, part.value.dtype()), part.order);
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

View FusionGraph::stored(int unit) const {
  if (const auto found = part_.find(unit); found != part_.end()) return found->second.view;
  const Tensor& value = units_[at(unit)].value;
  return whole(value.shape(), layout_.strides(value));
}

bool FusionGraph::store_in_concat(int part) {
  const Tensor& value = units_[at(part)].value;
  const Part& place = part_.at(part);
  if (!can_be_read_at(place.view, value)) return false;
  const std::vector<int>& parts = parts_of_.at(place.whole.id());
  const auto index = at(std::ranges::find(parts, part) - parts.begin());
  return home_.emplace(value.id(), Home{place, index, index + 1}).second;
}

std::vector<int> FusionGraph::writers(const Source& source) const {
  if (source.copy >= 0) return {source.copy};
  if (const auto home = home_.find(source.written.id()); home != home_.end()) {
    const auto parts = parts_of_.at(source.base.id()).begin();
    const auto& [place, first, last] = home->second;
    return {parts + static_cast<std::ptrdiff_t>(first), parts + static_cast<std::ptrdiff_t>(last)};
  }
  if (const int unit = of(source.base); unit >= 0) return {unit};
  const auto parts = parts_of_.find(source.base.id());
  return parts == parts_of_.end() ? std::vector<int>{} : parts->second;
}

Source FusionGraph::copied(const Tensor& x, const Strides& strides) {
  const auto [found, fresh] = copy_of_.try_emplace({x.id(), strides}, 0);
  if (fresh) strides_of_copy_[found->second = copy(x)] = strides;
  return {x, found->second, whole(x.shape(), strides), x};
}

bool FusionGraph::suits(const View& view, const Tensor& x, Reading reading) const {
  if (reading == Reading::any) return true;
  if (reading == Reading::unbounded) return view.inside.empty();
  const Strides dense = layout_.strides(x);
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.shape()[axis] != 1 && view.strides[at(axis)] != dense[at(axis)]) return false;
  return view.inside.empty();
}

Source FusionGraph::source(const Tensor& x, Reading reading) {
  std::vector<Tensor> views;  // from x down to what is stored
  Tensor base = x;
  for (; is_view(base); base = base.inputs()[0]) views.push_back(base);
  Source source = is_a<Constant>(base) ? copied(base, base.shape().row_major())
                                       : Source{base, -1, whole(base.shape(), layout_.strides(base)), base};
  if (const auto home = home_.find(base.id()); home != home_.end())
    source.base = home->second.place.whole, source.view = home->second.place.view;
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
  View wanted = whole(root.shape(), strides);
  while (const std::optional<View> below = seen_through(wanted, x)) wanted = *below, x = x.inputs()[0];
  const bool computed = unit_of_.count(x.id()) || parts_of_.count(x.id());
  return computed && suits(wanted, x, Reading::dense) ? std::optional(x) : std::nullopt;
}

void FusionGraph::connect() {
  // Asking for sources may add copies, which have inputs of their own.
  for (std::size_t to = 0; to < units_.size(); ++to) {
    const bool head = units_[to].kind == FusionNode::Kind::head;
    const std::vector<Tensor> inputs = units_[to].inputs();
    for (const Tensor& x : inputs) {
      if (is_a<Constant>(x) && !head) continue;
      const auto edge = [&](int from, EdgeKind kind) { edges_.push_back({from, static_cast<int>(to), kind}); };
      const bool expands = is_a<Expand>(x);
      if (!head && of(x) >= 0) {
        edge(of(x), EdgeKind::direct);
      } else if (!head && expands && of(x.inputs()[0]) >= 0) {
        edge(of(x.inputs()[0]), EdgeKind::expand);
      } else {
        const Source from = source(x, reading_of(units_[to]));
        const bool is_reshaped_head =
            !head && is_a<Reshape>(x) && from.copy < 0 && is_head(from.base) && from.base.id() == x.inputs()[0].id();
        for (int writer : writers(from)) edge(writer, is_reshaped_head ? EdgeKind::reshaped : EdgeKind::load);
      }
    }
  }
  // Every rank runs its collectives in the order of their numbers.
  std::map<std::int64_t, int> collectives;
  for (const auto& [node, unit] : unit_of_)
    if (const auto* op = std::get_if<Collective>(&node->op)) collectives.emplace(op->number, unit);
  int before = -1;
  for (const auto& [number, unit] : collectives) {
    check(before < 0 || all()[at(before)].order < all()[at(unit)].order,
          "fuse: the graph's collectives are not in order; call order_collectives first");
    if (before >= 0) edges_.push_back({before, unit, EdgeKind::load});
    before = unit;
  }
}

}  // namespace nixie
