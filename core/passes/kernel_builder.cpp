// KernelBuilder: slots, heads, the order that in-place writes require, and the kernels around the stages.
#include "nixie/core/passes/kernel_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "nixie/core/base/integer_math.h"
#include "nixie/core/ops/elementwise.h"
#include "nixie/core/passes/stage_builder.h"
#include "nixie/core/state/graph_walk.h"
#include "nixie/core/state/variable.h"

namespace nixie {
namespace {

std::string leaf_name(const Input& input) { return input.name.empty() ? "data" : input.name; }

std::string product_name(const Matmul&) { return "matmul"; }
std::string product_name(const Conv& conv) {
  const char* roles[] = {"conv", "conv_input_grad", "conv_filter_grad"};
  return roles[static_cast<int>(conv.role)];
}

std::string op_name(const FusionNode& unit) {
  if (unit.kind == FusionNode::Kind::copy) return "copy";
  return std::visit(overloaded{
                        [](const Map& map) { return map.op->name; },
                        [](const Reduce& reduce) { return std::string(to_string(reduce.kind)); },
                        [](const Random&) { return std::string("random"); },
                        [](const Coordinate&) { return std::string("coordinate"); },
                        []<OneOf<Matmul, Conv> T>(const T& product) { return product_name(product); },
                        [](const RoundedProduct& rounded) {
                          return std::visit([](const auto& each) { return product_name(each); }, rounded.product) +
                                 " in " + rounded.sums.merge->name;
                        },
                        [](const Pool& pool) {
                          const char* roles[] = {"", "_index", "_input_grad", "_gather"};
                          return std::string(pool.kind == PoolKind::max ? "max_pool" : "average_pool") +
                                 roles[static_cast<int>(pool.role)];
                        },
                        [](const Gather&) { return std::string("gather"); },
                        [](const Scatter&) { return std::string("scatter"); },
                        [](const ArgSort&) { return std::string("argsort"); },
                        [](const Scan& scan) { return fmt::format("scan_{}", to_string(scan.kind)); },
                        [](const Collective& collective) { return std::string(to_string(collective.kind)); },
                        []<OneOf<Constant, Input, Expand, Reshape, Permute, Slice, Pad, Concat> T>(const T&) {
                          return std::string("value");  // no unit of its own
                        },
                    },
                    unit.value.node().op);
}

// Whether one of the goals comes after a node; `after` are the direct successors of each.
bool leads_to_any(const std::vector<std::set<int>>& after, int from, const std::set<int>& goals) {
  std::vector<int> left{from};
  std::unordered_set<int> seen;
  while (!goals.empty() && !left.empty()) {
    const int node = left.back();
    left.pop_back();
    for (int next : after[at(node)]) {
      if (goals.count(next)) return true;
      if (seen.insert(next).second) left.push_back(next);
    }
  }
  return false;
}

}  // namespace

int KernelBuilder::add_slot(const Tensor& x, const Strides& strides, bool external, const std::string& name) {
  plan_.slots.push_back(
      {.name = name, .dtype = plan_dtype(x.dtype()), .shape = x.shape(), .strides = strides, .external = external});
  const int slot = static_cast<int>(plan_.slots.size()) - 1;
  if (external) plan_.externals.push_back(slot);
  return slot;
}

KernelBuilder::KernelBuilder(const Graph& graph, const Layout& layout, FusionGraph& units)
    : layout_(layout), units_(units) {
  plan_.scalars = scalars_of(graph);
  std::map<VariableState*, int> leaf_of;
  std::int64_t largest = 0;
  for (const Tensor& leaf : leaves_of(graph)) {
    const auto& input = std::get<Input>(leaf.node().op);
    if (const std::int64_t size = leaf.shape().size(); !input.variable && leaf.shape().rank() > 0 && size > largest) {
      largest = size;
      plan_.batch = leaf.shape()[0];
    }
    const int slot = add_slot(leaf, layout_.strides(leaf), true, leaf_name(input));
    slot_of_base_[leaf.id()] = slot;
    if (input.variable) leaf_of[input.variable.get()] = slot;
  }
  int scalars = 0;
  for (const Tensor& x : topological(graph))
    if (is_scalar(x)) scalar_of_[x.id()] = scalars++;
  for (const Tensor& output : graph.outputs) {
    const Shape& shape = output.shape();
    const Strides strides = has_variable_layout(output) ? layout_.variable(shape) : shape.row_major();
    claim(output, add_slot(output, strides, true, "output"));
  }
  for (const Trace::Set& set : graph.sets) {
    const auto leaf = leaf_of.find(set.variable.get());
    const bool read = leaf != leaf_of.end();
    const int slot =
        read ? leaf->second : add_slot(set.value, layout_.variable(set.value.shape()), true, set.variable->name);
    if (const auto base = slot_of_base_.find(set.value.id());
        read && base != slot_of_base_.end() && base->second == slot)
      continue;
    claim(set.value, slot, read);
  }
}

// Lets the unit that computes a root write its slot, or a copy where there is none. The parts of a concat are kernels
// of their own, so they write no slot that is read as well.
void KernelBuilder::claim(const Tensor& root, int slot, bool is_read) {
  int writer = -1;
  Slot& target = plan_.slots[at(slot)];
  const auto base = units_.claimable(root, target.strides);
  if (const int u = base ? units_.of(*base) : -1; base && (u >= 0 || !is_read)) {
    if (slot_of_base_.emplace(base->id(), slot).second)
      writer = u;  // -1 for a concat: its parts write
    else if (u >= 0)
      extra_[writer = u].push_back(slot);
    const bool is_written = writer >= 0 || slot_of_base_[base->id()] == slot;
    if (const Strides strides = layout_.strides(*base); is_written && strides_in(slot, base->shape()) != strides)
      target.shape = base->shape(), target.strides = strides;
    if (writer < 0 && u < 0 && is_written) return;
  }
  if (writer < 0) {
    writer = units_.copy(root);
    slot_of_copy_[writer] = slot;
  }
  writer_of_leaf_[slot] = writer;
}

int KernelBuilder::slot_of(const Source& source) {
  if (source.copy >= 0) {
    const auto [found, fresh] = slot_of_copy_.try_emplace(source.copy, 0);
    if (fresh) found->second = add_slot(source.base, units_.strides_of_copy(source.copy), false, "copy");
    return found->second;
  }
  const auto [found, fresh] = slot_of_base_.try_emplace(source.base.id(), 0);
  if (fresh) {
    const int u = units_.of(source.base);
    found->second = add_slot(source.base, layout_.strides(source.base), false, u < 0 ? "concat" : op_name(unit(u)));
  }
  return found->second;
}

// The strides of a value of this shape in a slot that was made for it, or for a reshape of it.
Strides KernelBuilder::strides_in(int slot, const Shape& shape) const {
  const Slot& target = plan_.slots[at(slot)];
  return target.shape == shape ? target.strides : shape.row_major();
}

KernelBuilder::Written KernelBuilder::written(int u) {
  const FusionNode& writer = unit(u);
  if (const auto part = units_.part(u)) return {slot_of({part->whole, -1, {}, {}}), part->view};
  const int slot = slot_of({writer.value, writer.kind == FusionNode::Kind::copy ? u : -1, {}, {}});
  return {slot, whole(writer.value.shape(), strides_in(slot, writer.value.shape()))};
}

Access KernelBuilder::access(const Written& target, const Kernel& kernel) const {
  const bool is_reshaped = kernel.reduced.empty() && target.view.shape != kernel.domain;
  const View view = is_reshaped ? *compose(target.view, Reshape{}, kernel.domain) : target.view;
  Access access{
      .slot = target.slot, .offset = view.offset, .strides = view.strides, .inside = view.inside, .fill = view.fill};
  for (int axis = 0; axis < kernel.domain.rank(); ++axis)  // a kept value repeats along a reduced axis
    if (view.shape[axis] != kernel.domain[axis] || view.shape[axis] == 1) access.strides[at(axis)] = 0;
  return access;
}

std::vector<std::set<int>> KernelBuilder::place(const std::vector<FusedGroup>& groups) {
  group_of_.assign(units_.all().size(), -1);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (int u : groups[g].units) group_of_[at(u)] = static_cast<int>(g);
  std::vector<std::set<int>> after(groups.size());
  stored_.assign(units_.all().size(), 0);
  std::vector<char> is_viewed(units_.all().size(), 0);
  auto group = [&](int u) { return group_of_[at(u)]; };
  for (const Edge& edge : units_.edges()) {
    if (group(edge.from) == group(edge.to)) continue;
    stored_[at(edge.from)] = 1;
    is_viewed[at(edge.from)] |= edge.kind != EdgeKind::direct;
    after[at(group(edge.from))].insert(group(edge.to));
  }
  const int count = static_cast<int>(units_.all().size());
  // What a kernel stores in a concat, others read there.
  for (int part = 0; part < count; ++part) {
    const int from = units_.part(part) ? units_.of(unit(part).value) : -1;
    if (from < 0 || is_root(from) || group(from) != group(part)) continue;
    char& is_stored = stored_[at(from)];
    if (is_stored && !is_viewed[at(from)]) is_stored = !units_.store_in_concat(part);
  }
  for (int u = 0; u < count; ++u)
    if (unit(u).kind == FusionNode::Kind::copy || is_root(u)) stored_[at(u)] = 1;
  // Who reads a Variable's old value runs before who writes the new one.
  std::map<int, std::set<int>> readers;
  for (int u = 0; u < count; ++u)
    for (const Tensor& x : unit(u).inputs()) {
      if (is_a<Constant>(x) || units_.of(x) >= 0) continue;
      const Source source = units_.source(x, reading_of(unit(u)));
      const auto slot = slot_of_base_.find(source.base.id());
      const bool is_old = units_.writers(source).empty();
      if (is_old && slot != slot_of_base_.end() && writer_of_leaf_.count(slot->second))
        readers[slot->second].insert(group(u));
    }
  for (auto& [slot, writer] : writer_of_leaf_) {
    const int home = group(writer);
    std::set<int> before = readers[slot];
    before.erase(home);
    if (leads_to_any(after, home, before)) {
      divert(slot, writer);
      continue;
    }
    for (int reader : before) after[at(reader)].insert(home);
  }
  sinks_.assign(groups.size(), 1);
  for (const Edge& edge : units_.edges())
    if (group(edge.from) != group(edge.to)) sinks_[at(group(edge.from))] = 0;
  return after;
}

// Writes a Variable's new value to a slot of its own first, and copies it over when everybody has read the old one.
void KernelBuilder::divert(int slot, int writer) {
  const int fresh = add_new_value(slot);
  if (unit(writer).kind == FusionNode::Kind::copy) {
    slot_of_copy_[writer] = fresh;
  } else if (auto extra = extra_.find(writer); extra != extra_.end() && std::ranges::count(extra->second, slot)) {
    std::ranges::replace(extra->second, slot, fresh);
  } else {
    slot_of_base_[unit(writer).value.id()] = fresh;
  }
}

// A slot of its own for a Variable's new value, which is copied over at the end.
int KernelBuilder::add_new_value(int variable) {
  const Slot slot = plan_.slots[at(variable)];
  plan_.slots.push_back(
      {.name = slot.name + " (new)", .dtype = slot.dtype, .shape = slot.shape, .strides = slot.strides});
  const int fresh = static_cast<int>(plan_.slots.size()) - 1;
  Kernel kernel{.label = "copy " + slot.name, .domain = slot.shape};
  kernel.loads.push_back({.slot = fresh, .strides = slot.strides});
  kernel.stores.push_back({.slot = variable, .strides = slot.strides});
  Stage stage;
  stage.body.push_back({.primitive = Primitive::load, .type = compute_dtype(slot.dtype)});
  stage.stores.push_back({});
  kernel.stages.push_back(std::move(stage));
  last_.push_back(std::move(kernel));
  return fresh;
}

// A Variable may be written by a kernel that reads it only at the same positions and in no later stage. Else the new
// value goes to a slot of its own, where later kernels read it, and is copied over at the end.
void KernelBuilder::protect_variables(const FusedGroup& group, Kernel& kernel) {
  for (std::size_t stage = 0; stage < kernel.stages.size(); ++stage)
    for (const Store& store : kernel.stages[stage].stores) {
      Access& target = kernel.stores[at(store.access)];
      if (!writer_of_leaf_.count(target.slot)) continue;
      bool safe = true;
      for (std::size_t load = 0; load < kernel.loads.size(); ++load) {
        const Access& read = kernel.loads[load];
        if (read.slot != target.slot) continue;
        safe &= read.strides == target.strides && read.offset == target.offset && read.inside.empty();
        for (std::size_t later = stage + 1; later < kernel.stages.size(); ++later)
          for (const Instruction& step : kernel.stages[later].body)
            safe &= !(step.primitive == Primitive::load && step.index == static_cast<int>(load));
      }
      if (kernel.head)
        for (const Operand& operand : kernel.head->operands) safe &= operand.slot != target.slot;
      if (safe) continue;
      const int fresh = add_new_value(target.slot);
      for (int u : group.units)
        if (const auto base = slot_of_base_.find(unit(u).value.id());
            base != slot_of_base_.end() && base->second == target.slot)
          base->second = fresh;
      target.slot = fresh;
    }
}

Head KernelBuilder::head_of(const FusionNode& member) {
  Head head{.dtype = plan_dtype(member.value.dtype())};
  std::visit(
      overloaded{
          [&]<OneOf<Matmul, Conv, RoundedProduct, Pool, Gather, Scatter, ArgSort, Scan, Collective> T>(const T& op) {
            head.op = op;
          },
          []<OneOf<Constant, Input, Map, Coordinate, Reduce, Expand, Reshape, Permute, Slice, Pad, Concat, Random> T>(
              const T&) {
            fail(Fault::usage, "fuse: an op was taken for a head that has no loop of its own; this is a bug in nixie");
          }},
      member.value.node().op);
  for (const Tensor& x : member.value.inputs()) {
    const Source source = units_.source(x, reading_of(member));
    head.operands.push_back({slot_of(source), source.view.offset, x.shape(), source.view.strides});
  }
  return head;
}

Kernel KernelBuilder::kernel_of(const FusedGroup& group) {
  Kernel kernel{.domain = group.domain, .reduced = group.reduced};
  for (int u : group.units)
    if (unit(u).kind == FusionNode::Kind::head) kernel.head = head_of(unit(u));
  std::vector<std::string> names;
  for (int u : group.units)
    if (names.empty() || names.back() != op_name(unit(u))) names.push_back(op_name(unit(u)));
  if (names.size() > 6) names = {names[0], names[1], names[2], "...", names[names.size() - 2], names.back()};
  kernel.label = fmt::format("{}", fmt::join(names, " + "));
  StageBuilder(*this, group, kernel).run();
  protect_variables(group, kernel);
  return kernel;
}

Plan KernelBuilder::build(const std::vector<FusedGroup>& groups, const std::vector<int>& order) {
  for (int g : order) {
    Kernel kernel = kernel_of(groups[at(g)]);
    if (!kernel.stages.empty()) plan_.kernels.push_back(std::move(kernel));
  }
  for (Kernel& copy : last_) plan_.kernels.push_back(std::move(copy));
  return std::move(plan_);
}

}  // namespace nixie
