// Moves reductions to one value into the epilogue of the program that stores what they reduce.
#include "nixie/backends/cuda/families/warp_parts.h"

#include <algorithm>
#include <map>

#include "nixie/backends/cuda/families/portable.h"
#include "nixie/backends/cuda/generate/portable.h"
#include "nixie/core/base/integer_math.h"
#include "nixie/core/graph/plan_query.h"

namespace nixie::cuda {
namespace {

constexpr std::size_t kMostReductions = 8;  // words in the registers of a thread

bool is_whole(const Kernel& kernel) {
  for (int axis = 0; axis < kernel.domain.rank(); ++axis)
    if (kernel.domain[axis] != 1 && std::ranges::find(kernel.reduced, axis) == kernel.reduced.end()) return false;
  return !kernel.head && kernel.domain.size() > 1;
}

bool merges_alone(ReduceKind kind) {
  using enum ReduceKind;
  return kind == sum || kind == prod || kind == max || kind == min;
}

// Whether an instruction is the same at the end of another kernel over the same domain.
bool may_move(const Instruction& in) {
  return in.primitive != Primitive::carried && in.primitive != Primitive::coordinate &&
         in.primitive != Primitive::uniform && in.primitive != Primitive::normal;
}

// A kernel that first reduces one array, all of it, and then works with the results alone.
bool only_reduces(const Kernel& kernel) {
  if (!is_whole(kernel) || kernel.loads.size() != 1 || kernel.stages.empty()) return false;
  const Stage& first = kernel.stages[0];
  return first.full && first.stores.empty() && first.carries.empty() && !first.reductions.empty() &&
         first.reductions.size() <= kMostReductions &&
         std::ranges::all_of(first.reductions, [](const Reduction& each) { return merges_alone(each.kind); }) &&
         std::ranges::all_of(first.body, may_move) &&
         std::none_of(kernel.stages.begin() + 1, kernel.stages.end(), [](const Stage& stage) {
           return stage.full || std::ranges::any_of(stage.body, [](const Instruction& in) {
                    return in.primitive == Primitive::load || in.primitive == Primitive::coordinate;
                  });
         });
}

// Adds the reductions of `first`, of what the stage's store `stored` stores.
void add_reductions(const Plan& plan, Kernel& kernel, const Store& stored, const Stage& first) {
  Stage& last = kernel.stages.back();
  const Dtype type = dtype_of(plan, kernel.stores[at(stored.access)].slot);
  int value = stored.value;
  if (type == Dtype::f16 || type == Dtype::bf16) {
    last.body.push_back(
        {.primitive = type == Dtype::f16 ? Primitive::round_f16 : Primitive::round_bf16, .args = {value, -1, -1}});
    value = static_cast<int>(last.body.size()) - 1;
  }
  std::map<int, int> moved;
  for (std::size_t i = 0; i < first.body.size(); ++i) {
    Instruction in = first.body[i];
    for (int& arg : in.args)
      if (arg >= 0) arg = moved.at(arg);
    const bool loads = in.primitive == Primitive::load;
    moved[static_cast<int>(i)] = loads ? value : static_cast<int>(last.body.size());
    if (!loads) last.body.push_back(in);
  }
  for (Reduction reduction : first.reductions) {
    reduction.value = moved.at(reduction.value);
    last.reductions.push_back(reduction);
  }
}

// Takes out a store of the last stage, and the access that it alone has.
void drop_store(Kernel& kernel, int access) {
  std::erase_if(kernel.stages.back().stores, [&](const Store& store) { return store.access == access; });
  kernel.stores.erase(kernel.stores.begin() + access);
  for (Stage& stage : kernel.stages)
    for (Store& store : stage.stores) store.access -= store.access > access;
}

// The kernel that does with parts, arrays of `count`, what `whole` does with the values. Loads name the slots of parts
// by their place among them.
Kernel of_parts(Kernel whole, std::int64_t count) {
  Stage& first = whole.stages[0];
  whole.domain = Shape{count};
  whole.reduced = {0};
  whole.loads.clear();
  Stage sums;
  for (const Reduction& each : first.reductions) {
    const int i = static_cast<int>(whole.loads.size());
    whole.loads.push_back({.slot = i, .strides = {1}});
    sums.body.push_back({.primitive = Primitive::load, .type = first.body[at(each.value)].type, .index = i});
    sums.reductions.push_back({each.kind, i, each.carried});
  }
  first = std::move(sums);
  for (Access& store : whole.stores) store.strides = {0}, store.inside = {};
  return whole;
}

}  // namespace

std::optional<Absorption> with_warp_parts(const Grouping& grouping, const Choice& choice, std::size_t other,
                                          std::int64_t count) {
  const Grouping::Group& group = grouping.groups[other];
  if (choice.leaves || choice.warp_parts || choice.alone || choice.pooled || group.by || group.members.size() != 1)
    return {};
  const Kernel& kernel = group.members[0];
  const Stage& last = choice.kernel.stages.back();
  if (!only_reduces(kernel) || kernel.domain != choice.kernel.domain || !last.full || !last.reductions.empty())
    return {};
  const Access& load = kernel.loads[0];
  const auto stored = std::ranges::find_if(
      last.stores, [&](const Store& store) { return choice.kernel.stores[at(store.access)] == load; });
  if (stored == last.stores.end() || !load.inside.empty() || grouping.writers_of(load.slot).size() != 1) return {};

  Absorption with{.choice = choice, .other = Absorption::Other::stays};
  const int access = stored->access;
  add_reductions(grouping.plan, with.choice.kernel, Store(*stored), kernel.stages[0]);
  if (grouping.only_reader(load.slot) == other) drop_store(with.choice.kernel, access);
  with.choice.warp_parts = WarpParts{.count = count};
  const Kernel reader = of_parts(kernel, count);
  for (const Instruction& in : reader.stages[0].body)
    with.left.push_back({.name = "parts of " + kernel.label, .dtype = in.type, .shape = {count}, .strides = {1}});
  with.choice.warp_parts->slots.resize(with.left.size());
  with.reader = Choice{.family = &reduce(), .kernel = reader};
  return with;
}

std::string warp_parts_defines(const Choice& choice) {
  return choice.warp_parts ? defines({{"WARP_PARTS", choice.warp_parts->count}}) : std::string();
}

}  // namespace nixie::cuda
